"""fulgurite against eager, as ratios; README.md says what each number is."""
