"""What to do next about a patch, out of its story."""

from __future__ import annotations

from collections.abc import Iterator

from patchkit.knowing.story import Story, Trial
from patchkit.outcome import Status
from patchkit.series.verdict import Verdict


def next_steps(story: Story) -> tuple[str, ...]:
    """Return the steps to take, in order; none where all is well."""
    steps = [*_of_store(story)]
    if story.trial is not None:
        steps += _of_trial(story, story.trial)
    return tuple(dict.fromkeys(steps))


def _of_store(story: Story) -> Iterator[str]:
    for link in story.needs:
        if link.binds and not (link.declared or link.implied):
            yield f"declare `Depends-On: {_stem(link.earlier)}` in its header"
    for passage in story.passages:
        release = passage.step.release
        if passage.differences:
            yield (
                f"`patchkit rebase v{release}` shows how what is stored differs from the move; "
                "--update replaces it"
            )
    there = {passage.step.release for passage in story.passages if passage.step.is_there}
    for known in story.verdicts:
        release = known.verdict.release
        if release in there and not known.fresh:
            yield f"`patchkit test v{release} {_stem(story.asked.patch)}` makes its verdict anew"
        elif release in there and known.verdict.verdict is Verdict.SUPERSEDED:
            yield f"leave it out of v{release}: its tests pass there without it"


def _of_trial(story: Story, trial: Trial) -> Iterator[str]:
    """Yield the steps for a target that does not have the patch."""
    release = trial.target if trial.is_release else None
    move = f"`patchkit rebase {release}`"
    if story.stopped is not None and story.stopped == release:
        yield f"a rebase to {release} has stopped: `patchkit rebase --continue` or `--abort`"
        return
    if release is None:
        move = f"`patchkit rebase --target {trial.target} --output moved`"
    if trial.superseded:
        yield f"nothing: its tests pass there without it, so that {move} leaves it out"
        return
    upstream = {o.status for o in trial.outcomes} == {Status.ALREADY_UPSTREAM}
    if trial.in_range is False and not upstream:
        yield (
            f"its header does not mean it for {trial.target}: {move} and `--skip` leaves it out, "
            "or widen Applies-To"
        )
    yield from _of_outcomes(trial, move)


def _of_outcomes(trial: Trial, move: str) -> Iterator[str]:
    statuses = {outcome.status for outcome in trial.outcomes}
    blocking = sorted({label for outcome in trial.outcomes for label in outcome.blocked_by})
    if not trial.outcomes:
        return
    if statuses == {Status.ALREADY_UPSTREAM}:
        yield f"upstream has all of it: {move} drops it; say so in the series file"
    elif blocking:
        yield f"settle {', '.join(blocking)} first: what waits for that lands with it"
    elif trial.lands:
        yield f"{move} {'compares it with what is stored' if trial.is_stored else 'stores it so'}"
    elif all(outcome.landed for outcome in trial.outcomes):
        yield (
            f"read what drifted; {move} stops at it, and `--continue --accept-drift` or an edit "
            "goes on"
        )
    else:
        yield f"{move} stops at it, with the files to edit and all that landed in them"


def _stem(name: str) -> str:
    return name.removesuffix(".patch").removesuffix(".diff")
