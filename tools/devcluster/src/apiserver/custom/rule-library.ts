import { Environment } from "@marcbachmann/cel-js";

/** CEL with the functions of Kubernetes that definitions of Muster use. To be cloned for each schema. */
export function ruleEnvironment(): Environment {
  return new Environment({
    enableOptionalTypes: true,
    homogeneousAggregateLiterals: false,
    limits: { maxAstNodes: 100_000 },
  }).registerFunction("list<A>.sum(): A", (list: readonly (bigint | number)[]) =>
    list.slice(1).reduce<bigint | number>((sum, item) => add(sum, item), list[0] ?? 0n),
  );
}

function add(a: bigint | number, b: bigint | number): bigint | number {
  return typeof a === "bigint" && typeof b === "bigint" ? a + b : Number(a) + Number(b);
}
