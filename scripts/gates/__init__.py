"""What every change must keep. Each gate is a module with `check(tree) -> list[Violation]`."""
