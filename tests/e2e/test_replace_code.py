"""C++ texts of fusions that a user puts in place of printed ones."""

import copy
import pickle

import pytest
import torch

import fulgurite
from fulgurite import examine

FUSED = {"executors": ["fused_cpu", "aten"], "store_fusion_inputs": True}


def program(x):
    return (x * 3 + 1).relu()


class Module(torch.nn.Module):
    def forward(self, x):
        return program(x)


def fusion_of(compiled):
    return examine.get_fusions(fulgurite.last_traces(compiled)[-1])[0][1]


def with_five_for_three(fusion):
    text = fusion.printed_cpu_code()
    assert "f32(3.f)" in text
    return text.replace("f32(3.f)", "f32(5.f)")


def fives(x):
    return (x * 5 + 1).relu()


@pytest.mark.parametrize("make", [lambda: program, Module], ids=["function", "module"])
def test_an_edited_text_runs_and_the_printed_one_runs_again(make):
    x = torch.randn(4, 33)
    compiled = fulgurite.jit(make(), **FUSED)
    assert torch.equal(compiled(x), program(x))
    fusion = fusion_of(compiled)
    assert not fusion.is_replaced
    edited = with_five_for_three(fusion)
    fusion.replace_cpu_code(edited)
    assert torch.equal(compiled(x), fives(x)) and torch.equal(fusion(x), fives(x))
    assert fulgurite.cache_misses(compiled) == 1
    assert fusion.last_used.last_cpu_code() == edited != fusion.printed_cpu_code()
    assert "with another C++ text" in repr(fusion)
    fusion.restore_cpu_code()
    assert torch.equal(compiled(x), program(x)) and not fusion.is_replaced
    assert fusion.last_used.last_cpu_code() == fusion.printed_cpu_code()


def test_it_runs_wherever_the_function_runs_the_same_text():
    shapes = [(4, 33), (7, 20), (100, 1000)]
    compiled = fulgurite.jit(program, **FUSED)
    for shape in shapes[:2]:
        compiled(torch.randn(shape))
    fusion = fusion_of(compiled)
    fusion.replace_cpu_code(with_five_for_three(fusion))
    for shape in shapes:
        x = torch.randn(shape)
        assert torch.equal(compiled(x), fives(x))
    assert fulgurite.cache_misses(compiled) == 3
    other = torch.randn(4, 33, dtype=torch.float64)  # of another text
    assert torch.equal(compiled(other), program(other))
    fusion.restore_cpu_code()
    for shape in [*shapes, (2, 2)]:
        x = torch.randn(shape)
        assert torch.equal(compiled(x), program(x))


def test_other_functions_and_copies_are_as_they_were():
    x = torch.randn(4, 33)
    compiled, other = fulgurite.jit(Module(), **FUSED), fulgurite.jit(program, **FUSED)
    compiled(x), other(x)
    fusion_of(compiled).replace_cpu_code(with_five_for_three(fusion_of(compiled)))
    assert torch.equal(compiled(x), fives(x)) and torch.equal(other(x), program(x))
    for copied in (copy.deepcopy(compiled), copy.copy(compiled)):
        assert torch.equal(copied(x), program(x))
        assert not fusion_of(copied).is_replaced
    thawed = pickle.loads(pickle.dumps(compiled))
    assert torch.equal(thawed(x), program(x)) and "extern" in fusion_of(thawed).printed_cpu_code()


def test_a_text_that_does_not_compile_is_the_users_error():
    x = torch.randn(4, 33)
    compiled = fulgurite.jit(program, **FUSED)
    compiled(x)
    fusion = fusion_of(compiled)
    lines = fusion.printed_cpu_code().splitlines()
    at = next(number for number, line in enumerate(lines) if "f32(3.f)" in line)
    lines[at] = lines[at].replace("f32(3.f)", "three")
    with pytest.raises(fulgurite.UserError) as caught:
        fusion.replace_cpu_code("\n".join(lines))
    assert f"kernel.cpp:{at + 1}:" in str(caught.value)
    assert "undeclared identifier 'three'" in str(caught.value)
    assert f"> {at + 1:5} |" in str(caught.value)
    assert torch.equal(compiled(x), program(x)) and not fusion.is_replaced
    renamed = fusion.printed_cpu_code().replace('extern "C" void fused', 'extern "C" void other')
    with pytest.raises(fulgurite.UserError, match="defines no extern"):
        fusion.replace_cpu_code(renamed)
    with pytest.raises(fulgurite.UserError, match="cannot be written as UTF-8"):
        fusion.replace_cpu_code("// \udc80\n" + fusion.printed_cpu_code())
    for nothing in ("", "  \n", None, 3):
        with pytest.raises(fulgurite.UserError, match="a str that is not empty"):
            fusion.replace_cpu_code(nothing)
    assert torch.equal(compiled(x), program(x))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("long begin, long end) {", "double begin, long end) {"),
        ("long begin, long end) {", "long begin) {\n  const long end = begin;"),
        ('extern "C" void', 'extern "C" int'),
        ('extern "C" void', "static void"),
    ],
)
def test_a_function_of_another_signature_is_refused(old, new):
    x = torch.randn(4, 33)
    compiled = fulgurite.jit(program, **FUSED)
    compiled(x)
    fusion = fusion_of(compiled)
    text = fusion.printed_cpu_code()
    assert text.count(old) == 1
    wanted = r'extern "C" void fused_mul_add_relu\(const KernelArgs\*, long, long\)'
    with pytest.raises(fulgurite.UserError, match=f"what was there still runs.*{wanted}"):
        fusion.replace_cpu_code(text.replace(old, new))
    assert torch.equal(compiled(x), program(x)) and not fusion.is_replaced


def test_a_text_may_call_no_function_of_the_process():
    compiled = fulgurite.jit(program, **FUSED)
    compiled(torch.ones(3))
    fusion = fusion_of(compiled)
    text = 'extern "C" int nowhere();\n' + fusion.printed_cpu_code()
    call = text.replace("= args->sizes,", "= args->sizes + nowhere(),")
    assert call != text
    with pytest.raises(fulgurite.UserError, match="calls nowhere, which is not among"):
        fusion.replace_cpu_code(call)


def test_an_edit_may_read_what_the_printed_text_has_written_over():
    def chain(x):
        return torch.mm(x, x) * 3 + 1

    x = torch.randn(64, 64)
    compiled = fulgurite.jit(chain, **FUSED)
    compiled(x)
    fusion = fusion_of(compiled)
    seen = fusion.printed_cpu_code().replace("args->pointers[1];", "args->pointers[1]; *y0 = 0;")
    assert seen != fusion.printed_cpu_code()
    fusion.replace_cpu_code(seen)
    torch.testing.assert_close(compiled(x), chain(x))


def test_a_second_edit_takes_the_place_of_the_first():
    x = torch.randn(4, 33)
    compiled = fulgurite.jit(program, **FUSED)
    compiled(x)
    fusion = fusion_of(compiled)
    fusion.replace_cpu_code(with_five_for_three(fusion))
    fusion.replace_cpu_code(fusion.last_used.last_cpu_code().replace("f32(5.f)", "f32(7.f)"))
    assert torch.equal(compiled(x), (x * 7 + 1).relu())
    assert fusion.last_used.time(seconds=0.001) > 0 and "ret" in fusion.last_used.assembly()
