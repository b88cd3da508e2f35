import pytest

from gates import private_torch

OPENING = "template struct Open<&c10::OperatorHandle::operatorDef_>;\n"


def problems(tree, files):
    return [str(v) for v in private_torch.check(tree(files))]


def test_the_room_may(tree):
    text = OPENING + "TORCH_LIBRARY_IMPL(_, Fake, m) {}\n"
    assert problems(tree, {"src/torch/entry.cpp": text}) == []


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (OPENING, "reaches a private member"),
        ("#define private public\n", "opens private members"),
        ("TORCH_LIBRARY_IMPL(_, Fake, m) {}\n", "names a key that torch reserves"),
        ("auto k = c10::DispatchKey::TESTING_ONLY_GenericMode;\n", "names a key"),
    ],
)
def test_other_rooms_may_not(tree, text, what):
    (problem,) = problems(tree, {"src/capture/a.cpp": "\n" + text})
    assert problem.startswith(f"src/capture/a.cpp:2: {what}")


def test_a_member_opened_in_the_room_is_not_named_elsewhere(tree):
    files = {"src/torch/entry.cpp": OPENING, "src/capture/a.cpp": "return h.operatorDef_->op;\n"}
    (problem,) = problems(tree, files)
    assert problem.startswith("src/capture/a.cpp:1: names torch's private operatorDef_")


def test_comments_and_public_keys_pass(tree):
    text = (
        "// DispatchKey::Fake is taken\nauto k = c10::DispatchKey::CPU;\ntemplate struct A<int>;\n"
    )
    assert problems(tree, {"src/capture/a.cpp": text}) == []
