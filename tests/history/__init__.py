"""Real upstream changes as patches: does patchkit see when a release has one already?"""
