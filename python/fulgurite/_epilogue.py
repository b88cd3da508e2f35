"""The epilogue of an entry as a program: what it changes after its plan has run, and its result."""

import os

from fulgurite import _C, _programs, checks


def epilogue(record):
    """The program `epilogue(*tensors)` takes the outputs of the last trace, those that are stored
    somewhere last, then the containers among the arguments that are changed or returned; it repeats
    the effects on the state of Python, and returns the call's result.

    Writes to tensors are calls of the trace itself.
    """
    return _Epilogue(record).write()


class _Epilogue:
    def __init__(self, record):
        self.record, self.program = record, _programs.Program("epilogue", "Epilogue")
        self.tensors, self.containers, self.made = [], [], []

    def write(self):
        traces = self.record.finish or self.record.traces
        outputs = traces[-1].outputs[: len(self.record.traces[0].outputs)]
        self.tensors = [self.program.fresh(value.name) for value in outputs]
        places = _programs.containers_among_arguments(self.record)
        self.containers = [self.program.fresh(f"container_{number}") for number in places]
        self.program.line(f"def epilogue({', '.join([*self.tensors, *self.containers])}):", 0)
        for name, expressions in zip(self.containers, places.values(), strict=True):
            self.program.line(f"# {name}: {expressions[0]}")
        state = self.record.python_state
        recipes = [] if state is None else _C.state_recipes(state)
        stores_result = any(step == "result" for step, _, _ in recipes)
        result = self._result(self.record.template) if stores_result else ""
        if state is not None:
            self._effects(state, recipes)
        self.program.line(f"return {result or self._result(self.record.template)}")
        return self.program

    def _effects(self, state, recipes):
        objects, stores = _C.state_objects(state), _C.state_stores(state)
        holders = _C.state_holders(state)
        stored = len(self.tensors) - _count_tensors(recipes)

        def named(address):
            if isinstance(address, tuple):
                return self.containers[address[1]]
            path = holders[address][0] if address in holders else "object"
            if address in objects:
                return self.program.object(objects[address], path)
            return self.program.gone(path)

        made = [self._recipe(recipe, recipes, stored, named) for recipe in recipes]
        texts = self._shared(recipes, made)
        for kind, container, key, value, moved, updates, what, file, line in stores:
            where = f"{os.path.basename(file)}:{line}: " if file else ""
            self.program.line(f"# {where}{what}".replace("\n", " "))
            store = self.program.word(checks.STORES[kind])
            place = f"{named(container)}, {self.program.literal(key, 'key')}"
            if moved:
                self.program.line(f"{store}({place}, {self.program.word('absent')})")
            if updates:
                new = f"{self.program.word(checks.KINDS[kind])}({place})"
            elif value is None:
                new = self.program.word("absent")
            else:
                new = texts(value)
            for number, (symbol, swapped, operand) in enumerate(updates):
                pair = [f"({new})" if number else new, texts(operand)]
                new = f" {symbol} ".join(reversed(pair) if swapped else pair)
            self.program.line(f"{store}({place}, {new})")

    def _recipe(self, recipe, recipes, stored, named):
        step, what, parts = recipe
        if step == "constant":
            return self.program.literal(what)
        if step == "object":
            return named(what)
        if step == "tensor":
            return self.tensors[stored + what]
        if step == "number":
            return f"{self.tensors[stored + what]}.item()"
        if step == "argument":
            return self.containers[what]
        if step == "result":
            return self.made[what]
        if step == "instance":
            return self.program.object(what, "build"), parts
        return step, parts

    def _shared(self, recipes, made):
        """How each value is written; containers get a variable, so that each is made once."""
        names = {}
        for number, text in enumerate(made):
            if isinstance(text, str):
                names[number] = text
                continue
            step, parts = text
            name = self.program.fresh("made")
            values = [names[part] for part in parts]
            if step in ("tuple", "list", "dict", "set"):
                made_text = _container(step, values)
            else:  # the name of a callable
                made_text = f"{step}([{', '.join(values)}])"
            self.program.line(f"{name} = {made_text}")
            names[number] = name
        return names.__getitem__

    def _result(self, template):
        kind, what, children = template
        if kind == "tensor":
            return self.tensors[what]
        if kind == "constant":
            return self.program.literal(what, type(what).__name__)
        if kind == "again":
            return self.made[what]
        if kind == "argument":
            return self.containers[what]
        items = [self._result(child) for child in children]
        if kind == "dict":
            keys = [self.program.literal(key, "key") for key in what]
            text = f"{{{', '.join(f'{k}: {v}' for k, v in zip(keys, items, strict=True))}}}"
        elif kind == "build":
            text = f"{self.program.object(what, 'build')}([{', '.join(items)}])"
        else:
            text = _container(kind, items)
        name = self.program.fresh("result")
        self.program.line(f"{name} = {text}")
        self.made.append(name)
        return name


def _container(kind, items):
    inside = ", ".join(items)
    if kind == "tuple":
        return f"({inside}{',' * (len(items) == 1)})"
    if kind == "list":
        return f"[{inside}]"
    if kind == "set":
        return f"{{{inside}}}" if items else "set()"
    pairs = [f"{k}: {v}" for k, v in zip(items[::2], items[1::2], strict=True)]
    return f"{{{', '.join(pairs)}}}"


def _count_tensors(recipes):
    return len({what for step, what, _ in recipes if step in ("tensor", "number")})
