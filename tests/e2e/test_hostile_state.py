"""Programs that keep, change and hide state in ways that few programs do: each call gives what eager
gives and leaves what eager leaves, or is refused with the user's line."""

import copy

import pytest
import torch

import fulgurite
from fulgurite import Unsupported
from tests.e2e import hostile_objects, hostile_surroundings  # noqa: F401 - they register theirs
from tests.e2e.hostile_registry import PROGRAMS

REFUSED = set(
    "copied_context generator_kept_across_calls environment_written clock "
    "date unique_id file_read random_generator_object itertools_kept vars_and_dir "
    "date_replaced".split()
)


def same(a, b):
    if isinstance(a, torch.Tensor):
        return isinstance(b, torch.Tensor) and torch.equal(a, b)
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[k], b[k]) for k in a)
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(same, a, b))
    return a == b


def run(make, wrap):
    f, change, state = make()
    f, seen = wrap(f), []
    for number in range(5):
        seen.append(f(torch.arange(3.0) + number).clone())
        seen.append(copy.deepcopy(state()))
        change(number)
    for number in range(3):
        change(number)
    return seen


def outcome(make):
    try:
        return run(make, fulgurite.jit), None
    except Unsupported as error:
        return None, str(error)


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name):
    _, refused = outcome(PROGRAMS[name])
    assert refused is not None, "it is no longer refused: take it off the list"
    assert "tests/e2e/hostile_" in refused, refused


@pytest.mark.parametrize("name", [name for name in PROGRAMS if name not in REFUSED])
def test_as_eager(name, request):
    if name == "lru_cache_statistics":
        known = pytest.mark.xfail(strict=True, reason="hits of a cache are not counted again")
        request.applymarker(known)
    got, refused = outcome(PROGRAMS[name])
    assert refused is None
    assert same(got, run(PROGRAMS[name], lambda f: f))


def test_two_containers_change_in_one_call():
    def run(wrap):
        losses, scores, counts = [], [], {}

        def f(x):
            losses.append(x + 1)
            scores.append(x * 10)
            counts["calls"] = counts.get("calls", 0) + 1
            counts.update(last=len(losses))
            scores.extend([x, x - 1])
            return x

        f = wrap(f)
        for i in range(3):
            f(torch.ones(1) * i)
        return [t.item() for t in losses], [t.item() for t in scores], counts

    assert run(fulgurite.jit) == run(lambda f: f)


def test_gradients_are_dropped_after_a_step():
    def run(wrap):
        torch.manual_seed(0)
        model = torch.nn.Linear(2, 1)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)

        def step():
            optimizer.step()
            optimizer.zero_grad()

        step = wrap(step)
        for _ in range(3):
            model(torch.ones(1, 2)).sum().backward()
            step()
        return model.weight.tolist(), model.weight.grad

    assert run(fulgurite.jit) == run(lambda f: f)
