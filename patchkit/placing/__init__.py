"""Where a hunk goes, and the proof that it is there: plan, proposals, proof, the run."""
