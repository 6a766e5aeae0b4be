"""The placement advisor: which placement, collectors and heap suit a program on this machine."""
