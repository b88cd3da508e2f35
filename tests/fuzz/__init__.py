"""Random programs, compiled by fused_cpu and run by eager."""
