-- A Groebner basis and a resolution of the cyclic roots. Arguments: how many.
n = value last commandLine
R = ZZ/32003[vars(0 .. n - 1)]
cyclic = ideal(apply(toList(1 .. n - 1), d -> sum(n, i -> product(d, j -> R_((i + j) % n)))) | {product(gens R) - 1})
found = gens gb cyclic
print numColumns found
print degree cyclic
print sum apply(flatten entries found, f -> # terms f)
