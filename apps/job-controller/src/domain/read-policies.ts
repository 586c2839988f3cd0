import {
  isRestartedInPlace,
  type ExitCodeRules,
  type FailureAction,
  type FailureRule,
  type ReplicaSpec,
  type SuccessRule,
} from "./job.ts";
import { type Fields, NOT_NEGATIVE } from "./read-fields.ts";

const ACTIONS: readonly FailureAction[] = ["FailJob", "RestartPod", "RestartJob", "Ignore"];
const IN_PLACE = "can be judged only of types whose containers the kubelet does not restart";
const EXIT_CODE = { min: 1, max: 255 };

/** Reads `spec.failurePolicy` of Muster's Job. */
export function readFailurePolicy(spec: Fields, replicas: readonly Restarted[]): readonly FailureRule[] {
  const rules = spec.object("failurePolicy")?.objects("rules") ?? [];
  return rules.map((rule) => readFailureRule(rule, replicas)).filter((rule) => rule !== undefined);
}

type Restarted = Pick<ReplicaSpec, "type" | "restartPolicy">;

function readFailureRule(rule: Fields, replicas: readonly Restarted[]): FailureRule | undefined {
  const types = new Set(replicas.map(({ type }) => type));
  const action = rule.oneOf("action", ACTIONS);
  if (rule.raw("action") === undefined) rule.refuse("action", `is missing; one of ${ACTIONS.join(", ")}`);
  const replicaTypes = rule.texts("replicaTypes");
  for (const type of replicaTypes) if (!types.has(type)) rule.refuse("replicaTypes", unknownType(type));
  const on = readTrigger(rule);
  const restartedInPlace = replicas
    .filter(({ type }) => replicaTypes.length === 0 || replicaTypes.includes(type))
    .filter(({ restartPolicy }) => isRestartedInPlace(restartPolicy));
  if (restartedInPlace.length > 0 && on !== undefined && "exitCodes" in on) {
    const which = restartedInPlace.map(({ type, restartPolicy }) => `${type} (${restartPolicy})`).join(", ");
    rule.refuse(
      "onExitCodes",
      `${IN_PLACE}; not of ${which}: use restartPolicy ExitCode or Never, or name others in replicaTypes`,
    );
  }
  return action === undefined || on === undefined ? undefined : { action, replicaTypes, on };
}

function readTrigger(rule: Fields): FailureRule["on"] | undefined {
  const codes = rule.object("onExitCodes");
  const condition = rule.object("onPodCondition");
  if ((codes === undefined) === (condition === undefined)) {
    if (codes !== undefined || rule.raw("onExitCodes") === undefined)
      rule.refuse("", "needs exactly one of onExitCodes and onPodCondition");
    return undefined;
  }
  if (condition !== undefined) {
    const podCondition = condition.text("type") ?? "";
    if (podCondition === "") condition.refuse("type", "is missing");
    return { podCondition, status: condition.oneOf("status", ["True", "False", "Unknown"]) ?? "True" };
  }
  const values = codes?.integers("values", { min: 0, max: EXIT_CODE.max }) ?? [];
  if (values.length === 0) codes?.refuse("values", "needs at least one exit code");
  const exitCodes = codes?.oneOf("operator", ["In", "NotIn"]) ?? "In";
  return { exitCodes, values, container: codes?.text("containerName") };
}

/** Reads `spec.exitCodes`. */
export function readExitCodes(spec: Fields): ExitCodeRules {
  const codes = spec.object("exitCodes");
  const retryable = codes?.integers("retryable", EXIT_CODE) ?? [];
  const permanent = codes?.integers("permanent", EXIT_CODE) ?? [];
  const both = retryable.filter((code) => permanent.includes(code));
  if (both.length > 0) codes?.refuse("", `${both.join(", ")} cannot be both retryable and permanent`);
  return { retryable, permanent };
}

/** Reads `spec.successPolicy` of Muster's Job; without one, all pods of all types must succeed. */
export function readSuccessPolicy(
  spec: Fields,
  replicas: readonly Pick<ReplicaSpec, "type" | "replicas">[],
): readonly SuccessRule[] {
  const rules = spec.object("successPolicy")?.objects("rules") ?? [];
  if (rules.length === 0) return [replicas.map(({ type }) => ({ type, indexes: "all" }))];
  return rules.map((rule) => {
    const terms = rule.objects("allOf");
    if (terms.length === 0) rule.refuse("allOf", "needs at least one replica type");
    return terms.map((term) => readSuccessTerm(term, replicas)).filter((term) => term !== undefined);
  });
}

function readSuccessTerm(
  term: Fields,
  replicas: readonly Pick<ReplicaSpec, "type" | "replicas">[],
): SuccessRule[number] | undefined {
  const type = term.text("type");
  const replica = replicas.find((each) => each.type === type);
  if (type === undefined || replica === undefined) {
    term.refuse("type", unknownType(type ?? ""));
    return undefined;
  }
  const complete = term.oneOf("complete", ["All", "Any"]);
  const indexes = term.integers("indexes", NOT_NEGATIVE);
  const beyond = indexes.filter((index) => index >= replica.replicas);
  if (beyond.length > 0)
    term.refuse("indexes", `${beyond.join(", ")} can never succeed: ${type} has ${replica.replicas} replicas`);
  if (indexes.length > 0 && complete === "Any") term.refuse("", "needs one of indexes and complete: Any, not both");
  return { type, indexes: indexes.length > 0 ? indexes : complete === "Any" ? "any" : "all" };
}

function unknownType(type: string): string {
  return type === "" ? "is missing" : `"${type}" is no replica type of this job`;
}
