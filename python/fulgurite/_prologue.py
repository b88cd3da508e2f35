"""The prologue of an entry as a program: what it checks of a call, and what its traces get."""

import os

import torch

from fulgurite import _C, _programs, checks

_FEW = 4  # settings on a line


def prologue(entry, record):
    """The program `prologue(*args, **kwargs)` raises AssertionError where the entry does not serve
    the call, and returns the inputs of the entry's traces."""
    return _Prologue(entry, record).write()


class _Prologue:
    def __init__(self, entry, record):
        self.entry, self.record, self.sketch = entry, record, record.sketch
        self.program = _programs.Program("prologue", "Prologue")
        self.tensors = []  # the variables of the call's tensors, in order

    def write(self):
        self.program.line("def prologue(*args, **kwargs):", 0)
        self._settings()
        self._arguments()
        self._containers()
        self._held_tensors()
        self._data()
        self.fetched = []
        if self.record.python_state is not None:
            guards = _StateGuards(self.program, self.record.python_state)
            guards.write()
            self._fetched_tensors(guards)
        self._inputs()
        return self.program

    def _check(self, condition, note=""):
        self.program.line(f"assert {condition}" + (f"  # {note}" if note else ""))

    def _settings(self):
        self.program.line("# the settings of torch")
        items = [f"{k!r}: {self.program.literal(v)}" for k, v in self.sketch.settings.items()]
        rows = [", ".join(items[i : i + _FEW]) for i in range(0, len(items), _FEW)]
        text = ",\n    ".join(rows)
        self._check(f"{self.program.word('settings')}() == {{\n    {text}}}")

    def _arguments(self):
        given, keywords = self.sketch.positional, self.sketch.keywords
        self.program.line("# the arguments")
        self._check(f"len(args) == {len(given)} and list(kwargs) == {list(keywords)!r}")
        names = [self.program.fresh(name) for name in self.sketch.names]
        if given:
            self.program.line(f"{_targets(names[: len(given)])} = args")
        for name, key in zip(names[len(given) :], keywords, strict=True):
            self.program.line(f"{name} = kwargs[{key!r}]")
        for name, node in zip(names, [*given, *keywords.values()], strict=True):
            self._node(name, node)
        if len(self.tensors) > 1:
            tensors = ", ".join(self.tensors)
            self._check(f"{self.program.word('aliasing')}([{tensors}]) == {self.sketch.aliasing!r}")

    def _containers(self):
        """Those that the epilogue changes or gives back: as many different ones as there were."""
        places = _programs.containers_among_arguments(self.record)
        for first, *others in places.values():
            for other in others:
                self._check(f"{first} is {other}")
        if len(places) > 1:
            distinct = ", ".join(f"id({expressions[0]})" for expressions in places.values())
            self._check(f"len({{{distinct}}}) == {len(places)}")

    def _node(self, name, node):
        getattr(self, f"_{node.kind}")(name, node)

    def _tensor(self, name, node):
        self.tensors.append(name)
        attributes = bool(node.names)
        self._check(self._is_tensor(name, node.of, node.context, attributes, node.offset))
        if attributes:
            self._check(f"list(vars({name})) == {node.names!r}")
            self._children(name, node.children, node.names, f"vars({name}).values()")

    def _is_tensor(self, name, described, parameter, attributes=False, offset=None):
        dtype, device, shape, strides, requires_grad, keys = described
        text = f"{name}, {dtype}, {device!r}, {shape!r}, {strides!r}"
        text += ", requires_grad=True" if requires_grad else ""
        text += f", keys={keys!r}" if keys != checks.ordinary_keys(device) else ""
        text += f", offset={offset}" if offset is not None else ""
        text += ", parameter=True" if parameter else ""
        text += f", attributes={attributes}" if attributes is not False else ""
        return f"{self.program.word('is_tensor')}({text})"

    def _constant(self, name, node):
        self._check(f"{self.program.word('same')}({name}, {self.program.literal(node.of)})")

    def _object(self, name, node):
        value = node.of()
        wish = f"the_{name}"
        word = self.program.gone(wish) if value is None else self.program.object(value, wish)
        self._check(f"{name} is {word}")

    def _items(self, name, node):
        self._check(f"type({name}) is {self.program.kind(node.of)} and len({name}) == "
                    f"{len(node.children)}")  # fmt: skip
        self._children(name, node.children, node.names, name)

    def _dict(self, name, node):
        self._check(f"type({name}) is dict and len({name}) == {len(node.children)}")
        keys, values = [k for k, _ in node.children], [v for _, v in node.children]
        if not keys:
            return
        if all(key.kind == "constant" for key in keys):
            literal = self.program.literal(tuple(key.of for key in keys))
            self._check(f"{self.program.word('same')}(tuple({name}), {literal})")
            self._children(name, values, node.names, f"{name}.values()")
        else:
            # Keys and values by turns, as the entry reads them.
            names = [word for key in node.names for word in (f"{key}_key", key)]
            both = [child for pair in node.children for child in pair]
            items = f"[child for item in {name}.items() for child in item]"
            self._children(name, both, names, items)

    def _opened(self, name, node):
        self._check(f"type({name}) is {self.program.kind(node.of)}")
        context, children = self.program.fresh(f"{name}_context"), self.program.fresh(f"{name}_all")
        self.program.line(f"{context}, {children} = {self.program.word('opened')}({name})")
        self._check(f"len({children}) == {len(node.children)}")
        self._node(context, node.context)
        self._children(name, node.children, node.names, children)

    def _children(self, name, nodes, names, source):
        words = [self.program.fresh(f"{name}_{child}") for child in names]
        if words:
            self.program.line(f"{_targets(words)} = {source}")
        for word, node in zip(words, nodes, strict=True):
            self._node(word, node)

    def _held_tensors(self):
        lifted, trace = self.entry.lifted, self.record.traces[0]
        names = {}
        for value, (kind, number) in zip(trace.inputs, self.entry.sources, strict=True):
            if kind == "lifted":
                names[number] = value.name
        self.held = [
            self.program.object(tensor, names.get(i, f"held_{i}"))
            for i, tensor in enumerate(lifted)
        ]
        if lifted:
            self.program.line("# the tensors that the program uses besides its arguments")
        for name, tensor, described in zip(self.held, lifted, self.entry.lifted_types, strict=True):
            attributes = None if vars(tensor) else False
            parameter = isinstance(tensor, torch.nn.Parameter)
            self._check(self._is_tensor(name, described, parameter, attributes))
        for owner, described in self.entry.gradient_types:
            name = f"{self.held[owner]}.grad"
            self._check(self._is_tensor(name, described, False, None))

    def _fetched_tensors(self, guards):
        """Those that are another in each call."""
        for guard, path, described, offset in self.entry.fetched_types:
            name, kind = guards.place(guard, path)
            parameter = kind is torch.nn.Parameter
            self._check(self._is_tensor(name, described, parameter, None, offset))
            self.fetched.append(name)

    def _data(self):
        for tensor, data in self.entry.reads:
            name = self.program.object(tensor, "read")
            word = self.program.object(data, f"data_of_{name}")
            self._check(f"{self.program.word('has_data')}({name}, {word})")

    def _inputs(self):
        sources = {
            "argument": lambda i: self.tensors[i],
            "lifted": lambda i: self.held[i],
            "gradient": lambda i: f"{self.held[i]}.grad",
            "state": lambda i: self.fetched[i],
        }
        names = [sources[kind](number) for kind, number in self.entry.sources]
        self.program.line("# the inputs of the traces")
        self.program.line(f"return [{', '.join(names)}]")


class _StateGuards:
    """Guards are edges between objects: this dict has this value under this key."""

    def __init__(self, program, state):
        self.program = program
        self.facts, self.holders = _C.state_facts(state), _C.state_holders(state)
        self.objects = _C.state_objects(state)
        self.classes_told = {c for _, kind, c, *_ in self.facts if kind == "class"}
        self.told = set()

    def write(self):
        if self.facts:
            self.program.line("# the state of Python: what the program read of it")
        for _, kind, container, key, value, elements, place, file, line, asked, parts in self.facts:
            self._class_of(container)
            note = f"{place}" + (f"  {os.path.basename(file)}:{line}" if file else "")
            self._fact(kind, self._named(container, "object"), key, value, elements, note)
            now, given = self._now(kind, self._named(container, "object"), key)
            for question, answer in asked:
                text = question.format(f"{now}({given})")
                self.program.line(f"assert {'' if answer else 'not '}({text})  # {note}")
            if parts:
                self._parts(f"{now}({given})", value[1], parts, note)

    def _parts(self, container, kind, parts, note):
        """Of a container that is another one in each call. Those that are tensors are compared with
        the types of the inputs."""
        if self.objects.get(kind) is dict:
            keys = ", ".join(self.program.literal(key) for _, key in parts[::2])
            self.program.line(f"assert list({container}) == [{keys}]  # {note}")
        elif parts:
            self.program.line(f"assert len({container}) == {len(parts)}  # {note}")
        for number, (of, inner) in enumerate(parts):
            item = self._part(container, kind, parts, number)
            if of is not None:
                self.program.line(f"assert type({item}) is {self._named(of, 'kind')}  # {note}")
                self._parts(item, of, inner, note)
            elif item:
                same = f"{self.program.word('same')}({item}, {self.program.literal(inner)})"
                self.program.line(f"assert {same}  # {note}")

    def _part(self, container, kind, parts, number):
        """The expression for a part; "" for a key of a dict."""
        if self.objects.get(kind) is not dict:
            return f"{container}[{number}]"
        return f"{container}[{self.program.literal(parts[number - 1][1])}]" if number % 2 else ""

    def place(self, number, path):
        """(the expression for a place or a part of what is there, the class of what it is)"""
        for known, kind, container, key, value, *_, parts in self.facts:
            if known == number:
                now, given = self._now(kind, self._named(container, "object"), key)
                text, of = f"{now}({given})", value[1]
                for part in path:
                    text = self._part(text, of, parts, part)
                    of, parts = parts[part]
                return text, self.objects.get(of)
        raise AssertionError(f"there is no guard {number}")

    def _now(self, kind, container, key):
        given = container if key is None else f"{container}, {self.program.literal(key, 'key')}"
        return self.program.word(checks.KINDS[kind]), given

    def _class_of(self, container):
        path, class_checked = self.holders[container]
        if not class_checked or container in self.told or container not in self.objects:
            return
        self.told.add(container)
        name = self._named(container, path)
        kind = self.program.kind(type(self.objects[container]))
        self.program.line(f"assert type({name}) is {kind}")

    def _named(self, address, wish):
        path = self.holders[address][0] if address in self.holders else wish
        if address in self.objects:
            value = self.objects[address]
            path += "_dict" if type(value) is dict else ""
            return self.program.object(value, path)
        return self.program.gone(path)

    def _value(self, value, wish):
        what = value[0]
        if what == "absent":
            return self.program.word("absent")
        if what == "constant":
            return self.program.literal(value[1], wish)
        return self._named(value[1], wish)

    def _fact(self, kind, container, key, value, elements, note):
        now, given = self._now(kind, container, key)
        if value[0] == "class":
            condition = f"type({now}({given})) is {self._value(value, 'kind')}"
        elif kind in ("contents", "special methods", "bases", "function") and value[0] == "absent":
            wanted = ", ".join(self._value(element, "element") for element in elements)
            condition = f"{self.program.word('same_all')}({now}({given}), [{wanted}])"
        else:
            wanted = self._value(value, f"{now}_of_{container}")
            identical = value[0] != "constant"
            condition = (
                f"{now}({given}) is {wanted}"
                if identical
                else f"{self.program.word('same')}({now}({given}), {wanted})"
            )
        self.program.line(f"assert {condition}  # {note}".replace("\n", " "))


def _targets(names):
    return ", ".join(names) + ("," if len(names) == 1 else "")
