import { checkLabelKey, checkLabelValue } from "@muster/names";
import type { Path } from "./read-value.ts";

/** A problem of the node selection of a pod, at a path below the pod's spec. */
type SelectionProblem = { readonly path: Path; readonly message: string };

type Requirement = { readonly key?: string; readonly operator?: string; readonly values?: readonly string[] };
type NodeTerm = { readonly matchExpressions?: readonly Requirement[]; readonly matchFields?: readonly Requirement[] };

type RequiredNodes = { readonly nodeSelectorTerms?: readonly NodeTerm[] };
type Toleration = { readonly key?: string; readonly operator?: string; readonly value?: string };

/** The node selection of a pod's spec, with fields of the right types. */
export type WrittenSelection = {
  readonly nodeSelector?: Readonly<Record<string, string>>;
  readonly affinity?: {
    readonly nodeAffinity?: {
      readonly requiredDuringSchedulingIgnoredDuringExecution?: RequiredNodes;
    };
  };
  readonly tolerations?: readonly Toleration[];
};

const REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution";
const TERMS: Path = ["affinity", "nodeAffinity", REQUIRED, "nodeSelectorTerms"];

/** The problems of the node selector, the required node affinity and the tolerations: values that the API server refuses, or that no node can have. */
export function checkNodeSelection({
  nodeSelector = {},
  affinity,
  tolerations = [],
}: WrittenSelection): readonly SelectionProblem[] {
  const labels = Object.entries(nodeSelector).flatMap(([key, value]) => [
    ...toProblems(["nodeSelector", key], checkLabelKey(key, key)),
    ...toProblems(["nodeSelector", key], checkLabelValue(key, value)),
  ]);
  const terms = checkTerms(affinity?.nodeAffinity?.[REQUIRED]);
  return [...labels, ...terms, ...tolerations.flatMap((each, index) => checkToleration(["tolerations", index], each))];
}

function checkToleration(path: Path, { key = "", operator = "", value = "" }: Toleration): readonly SelectionProblem[] {
  if (operator === "Exists" && value !== "") {
    const message = `is ${JSON.stringify(value)} with the operator Exists; leave it out, or write the operator Equal`;
    return [{ path: [...path, "value"], message }];
  }
  if (key !== "") return toProblems([...path, "key"], checkLabelKey("key", key));
  if (operator === "Exists") return [];
  return [{ path, message: "has no key; write the key of a taint, or the operator Exists for every taint" }];
}

function checkTerms(required: RequiredNodes | undefined): readonly SelectionProblem[] {
  if (required === undefined) return [];
  const { nodeSelectorTerms = [] } = required;
  if (nodeSelectorTerms.length > 0)
    return nodeSelectorTerms.flatMap((term, index) => checkTerm([...TERMS, index], term));
  const message = `is empty; write a term with matchExpressions or matchFields, or leave ${REQUIRED} out`;
  return [{ path: TERMS, message }];
}

function checkTerm(path: Path, { matchExpressions = [], matchFields = [] }: NodeTerm): readonly SelectionProblem[] {
  if (matchExpressions.length + matchFields.length === 0)
    return [{ path, message: "accepts no node; write matchExpressions or matchFields, or leave the term out" }];
  const expressions = matchExpressions.flatMap((each, index) => {
    const here = [...path, "matchExpressions", index];
    const labels = isCompared(each) ? (each.values ?? []) : [];
    return [
      ...toProblems([...here, "key"], checkLabelKey("key", each.key ?? "")),
      ...checkValues(here, each),
      ...labels.flatMap((value, at) => toProblems([...here, "values", at], checkLabelValue("value", value))),
    ];
  });
  const fields = matchFields.flatMap((each, index) => {
    const here = [...path, "matchFields", index];
    if (each.key === "metadata.name") return checkValues(here, each);
    return [{ path: [...here, "key"], message: `is "${each.key ?? ""}"; the only field is metadata.name` }];
  });
  return [...expressions, ...fields];
}

/** Whether the values are compared with the values of labels. */
function isCompared({ operator }: Requirement): boolean {
  return operator === "In" || operator === "NotIn";
}

function checkValues(path: Path, { operator = "", values = [] }: Requirement): readonly SelectionProblem[] {
  const given = values.length === 0 ? "and has none" : `not ${values.map((value) => JSON.stringify(value)).join(", ")}`;
  switch (operator) {
    case "":
      return [{ path: [...path, "operator"], message: "is missing" }];
    case "In":
    case "NotIn":
      return values.length > 0 ? [] : [{ path, message: `${operator} needs values, ${given}` }];
    case "Exists":
    case "DoesNotExist":
      if (values.length === 0) return [];
      return [{ path: [...path, "values"], message: `must be left out with ${operator}, ${given}` }];
    default: {
      const isNumber = values.length === 1 && /^[+-]?\d+$/.test(values[0] ?? "");
      return isNumber ? [] : [{ path, message: `${operator} needs one value, a whole number, ${given}` }];
    }
  }
}

function toProblems(path: Path, fault: ReturnType<typeof checkLabelKey>): readonly SelectionProblem[] {
  return fault?.code === "invalid_request" ? [{ path, message: fault.reason }] : [];
}
