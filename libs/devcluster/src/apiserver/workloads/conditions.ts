import { type Json, type JsonObject, listAt, textAt } from "../json.ts";

export type Condition = {
  readonly type: string;
  readonly status: "True" | "False" | "Unknown";
  readonly reason: string;
  readonly message: string;
};

export function findCondition(workload: JsonObject, type: string): Json | undefined {
  return listAt(workload, "status", "conditions").find((condition) => textAt(condition, "type") === type);
}

/** The conditions with this one; as it was where neither its status nor its reason is new, and with the time of the last turn where its status is not. */
export function withCondition(
  conditions: readonly Json[],
  next: Condition,
  time: string,
  more: JsonObject = {},
): Json[] {
  const known = conditions.find((one) => textAt(one, "type") === next.type);
  const isSameStatus = textAt(known, "status") === next.status;
  if (isSameStatus && textAt(known, "reason") === next.reason) return [...conditions];
  const lastTransitionTime = isSameStatus ? textAt(known, "lastTransitionTime") : time;
  return [...withoutCondition(conditions, next.type), { ...next, ...more, lastTransitionTime }];
}

export function withoutCondition(conditions: readonly Json[], type: string): Json[] {
  return conditions.filter((one) => textAt(one, "type") !== type);
}
