"""Facts about operators, over every operator that torch registers."""

import re

import torch

from fulgurite import _C

RANDOM_NAME = re.compile(
    r"(^|_)(rand|randn|randint|randperm|bernoulli|multinomial|poisson|binomial|rrelu|dropout|normal|uniform|cauchy|"
    r"exponential|geometric|random|gamma|dirichlet|lstm|gru|rnn|attention)"
)

# Named like a random operator, and not one.
NOT_RANDOM = re.compile(
    r"backward|_grad\b|_cell|flatten_weight|mkldnn_rnn|gammainc|multigammaln|poisson_nll|philox|_thnn|"
    r"multi_head|digamma|polygamma|lgamma|igamma|sampled|upsample|_reorder_mkldnn|logical|"
    r"special_|mvlgamma|_init_dropout_state|dropout_inplace|_standard_gamma_grad|flex_|cpu_fallback|"
    r"_cell_dynamic|triton_scaled_dot_attention|onednn|static_runtime|inductor_rand"
)


def operators():
    for full in sorted(torch._C._dispatch_get_all_op_names()):
        name, _, overload = full.partition(".")
        try:
            schema = torch._C._get_schema(name, overload)
        except RuntimeError:
            continue  # a signature without types
        yield full, name, overload, schema


def test_facts_of_every_operator():
    assert (
        sum(1 for _, name, overload, _ in operators() if _C.op_facts(name, overload) is not None)
        > 3000
    )


def test_every_operator_with_a_generator_or_a_random_name_is_random():
    missed = []
    for full, name, overload, schema in operators():
        generator = any("Generator" in str(a.type) for a in schema.arguments)
        named = RANDOM_NAME.search(name.split("::")[1]) and not NOT_RANDOM.search(name)
        if (generator or named) and not _C.op_facts(name, overload)["random"]:
            missed.append(full)
    assert missed == []


def test_random_ops_have_a_tag_or_a_record():
    tagged = 0
    for full, name, overload, schema in operators():
        tags = torch._C._get_operation_overload(name, overload)[2]
        if torch.Tag.nondeterministic_seeded in tags:
            tagged += 1
            assert _C.op_facts(name, overload)["random"], full
    assert tagged > 100


def test_writes_are_those_of_the_schema_and_of_the_catalogue():
    for full, name, overload, schema in operators():
        facts = _C.op_facts(name, overload)
        declared = [
            i for i, a in enumerate(schema.arguments) if a.alias_info and a.alias_info.is_write
        ]
        if facts["hidden_write_flag"] is None:
            assert facts["written"] == declared, full
        else:
            assert set(declared) < set(facts["written"]), full


def test_running_statistics_are_never_silently_written():
    hidden = {
        full
        for full, name, overload, schema in operators()
        if _C.op_facts(name, overload)["hidden_write_flag"] is not None
    }
    # Everything else that takes running statistics declares the write, or does not write.
    declares_or_reads = re.compile(r"backward|_functional|no_training|no_update|_legit|with_update")
    for full, name, overload, schema in operators():
        if any(a.name == "running_mean" for a in schema.arguments) and not declares_or_reads.search(
            full
        ):
            assert full in hidden, full


def test_void_operators_have_an_effect():
    for full, name, overload, schema in operators():
        facts = _C.op_facts(name, overload)
        if not schema.returns and not facts["written"] and "..." not in str(schema):
            assert facts["is_assert"], full


def test_functional_forms():
    in_place = with_form = others = others_with_form = 0
    for full, name, overload, schema in operators():
        facts = _C.op_facts(name, overload)
        if not facts["written"] or facts["changes_metadata"] or not name.startswith("aten::"):
            continue
        form = _C.functional_form(name, overload)
        outs = [schema.arguments[i].is_out for i in facts["written"]]
        if any(outs) and not all(outs):
            assert form is None, full  # in which order would it return them?
            continue
        if name.endswith("_"):
            in_place += 1
            with_form += form is not None
        else:
            others += 1
            others_with_form += form is not None
        if form is None:
            continue
        form_name, _, form_overload = form.partition(".")
        form_facts = _C.op_facts(form_name, form_overload)
        assert not form_facts["written"], (full, form)
        returns = torch._C._get_schema(form_name, form_overload).returns
        assert not any(r.alias_info for r in returns), (full, form)
        assert form_facts["random"] == facts["random"], (full, form)
    print(f"in place {with_form}/{in_place}, others {others_with_form}/{others}")
    assert with_form >= 0.93 * in_place
    assert others_with_form >= 0.9 * others
