"""A random program from a seed."""

import random
from dataclasses import replace

import torch

from tests.fuzz import inputs as make
from tests.fuzz.arguments import Arguments
from tests.fuzz.evaluation import Evaluation, Rejected, evaluate
from tests.fuzz.exceptions import EAGER_ERRORS
from tests.fuzz.operators import Operator, by_kind
from tests.fuzz.programs import (
    Call,
    Given,
    Program,
    Ref,
    overload,
    renumbered,
    substituted,
    used_by,
)

FIRST_RESULT = 1000  # numbers of values below are inputs'
TRIES = 12
KINDS = {
    "pointwise": 54,
    "row": 12,
    "move": 10,
    "element": 14,
    "composite": 5,
    "other": 2,
    "in_place": 3,
    "draw": 4,
}


class Generator:
    def __init__(self, seed: int):
        self.draw = random.Random(seed)
        self.seed = seed
        self.large = self.draw.random() < 0.03
        self.dtype = make.any_dtype(self.draw)
        self.calls: list[Call] = []
        self.evaluation = Evaluation((), seed)
        self.next = FIRST_RESULT
        shape = make.shape(self.draw, self.large)
        for _ in range(self.draw.choice((1, 2, 2, 3))):
            sizes = shape if self.draw.random() < 0.6 else make.broadcastable(self.draw, shape)
            self._add_input(make.new_input(self.draw, self._dtype(), sizes))
        if self.draw.random() < 0.04:
            self._add_sharing_input()

    def program(self) -> Program:
        wanted = self.draw.choice((2, 3, 4, 5, 6, 7, 8, 10, 12))
        failures = 0
        while len(self.calls) < wanted and failures < 40:
            failures += not self._try_call()
        program = Program(
            tuple(self.evaluation.inputs),
            tuple(self.calls),
            self._outputs(),
            note=f"seed {self.seed}",
        )
        program = renumbered(program)
        return replace(program, others=self._others(program))

    def _dtype(self) -> torch.dtype:
        return self.dtype if self.draw.random() < 0.75 else make.any_dtype(self.draw)

    def _add_input(self, one: Given) -> int:
        return self.evaluation.add_input(one)

    def _add_sharing_input(self) -> None:
        first = self.evaluation.inputs[0]
        count = self.evaluation.values[0].real.untyped_storage().nbytes() // first.dtype.itemsize
        if count < 4:
            return
        size = self.draw.randint(1, count // 2)
        self._add_input(Given(first.dtype, first.pattern, (size,), (1,), count - size, 0))

    def _try_call(self) -> bool:
        kind = self.draw.choices(list(KINDS), list(KINDS.values()))[0]
        operator = self.draw.choice(by_kind()[kind])
        for _ in range(TRIES):
            if self._try_arguments(operator):
                return True
        return False

    def _try_arguments(self, operator: Operator) -> bool:
        pool = {n: v.real for n, v in self.evaluation.values.items()}
        arguments = Arguments(self.draw, pool, self.dtype)
        args, kwargs = arguments.of(operator)
        count = len(self.evaluation.inputs)
        if count + len(arguments.new_inputs) > 8:
            return False
        for one in arguments.new_inputs:
            self._add_input(one)
        number = lambda n: _ref(n, count)
        args, kwargs = substituted(args, number), substituted(kwargs, number)
        results, unpacked = self._results_of(operator, args, kwargs)
        call = Call(operator.name, args, kwargs, results, unpacked)
        try:
            if results is None:
                raise Rejected("eager")
            self.evaluation.run(call)
        except Rejected:
            self._drop_inputs(count)
            if operator.kind == "in_place":
                self._again()
            return False
        self.calls.append(call)
        self.next += len(results)
        return True

    def _results_of(self, operator: Operator, args: tuple, kwargs: tuple):
        """Numbers for the results; None where they cannot be counted."""
        returns = operator.schema.returns
        unpacked = len(returns) != 1 or str(returns[0].type) == "List[Tensor]"
        count = len(returns)
        if returns and str(returns[0].type) == "List[Tensor]":
            look = lambda n: self.evaluation.values[n].real
            try:
                made = overload(operator.name)(
                    *substituted(args, look), **dict(substituted(kwargs, look))
                )
            except EAGER_ERRORS:
                return None, True
            count = len(made)
            if count > 6:
                return None, True
        return tuple(self.next + i for i in range(count)), unpacked

    def _drop_inputs(self, count: int) -> None:
        for number in range(count, len(self.evaluation.inputs)):
            del self.evaluation.values[number]
        del self.evaluation.inputs[count:]

    def _again(self) -> None:
        """Without what a rejected call has written."""
        inputs = tuple(self.evaluation.inputs)
        self.evaluation = evaluate(Program(inputs, tuple(self.calls), ()), inputs, self.seed)

    def _outputs(self) -> tuple[int, ...]:
        """What nothing else uses, and some of the others."""
        used = {n for call in self.calls for n in used_by(call)}
        results = [r for call in self.calls for r in call.results]
        outputs = [r for r in results if r not in used or self.draw.random() < 0.15]
        if self.draw.random() < 0.03:
            outputs.append(0)
        if len(outputs) > 6:
            outputs = sorted(self.draw.sample(outputs, 6))
        return tuple(outputs or [0])

    def _others(self, program: Program) -> tuple[Given, ...]:
        if self.large:
            return ()
        for attempt in range(6):
            inputs = make.reshaped_inputs(self.draw, program.inputs, attempt < 3)
            try:
                evaluate(program, inputs, self.seed)
            except (Rejected, RuntimeError):
                continue
            return inputs
        return ()


def _ref(number: int, count: int) -> Ref:
    return Ref(count - 1 - number) if number < 0 else Ref(number)


def generate(seed: int) -> Program:
    return Generator(seed).program()


def is_comparable(program: Program) -> bool:
    """Whether eager runs it, and nothing in it jumps at rounded values."""
    try:
        for inputs in program.given():
            evaluate(program, inputs)
    except (Rejected, RuntimeError, KeyError, IndexError):
        return False
    return True
