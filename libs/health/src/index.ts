export { keepFacts } from "./keep-facts.ts";
export { decidePodHealth } from "./pod-health.ts";
export type { Health } from "./pod-health.ts";
export type { PodFacts } from "./pod-facts.ts";
export { isMarkFresh, MARK_FRESH_MS } from "./is-mark-fresh.ts";
export { decideForce } from "./decide-force.ts";
export type { ForcePolicy, ForceReason, NodeSeen } from "./decide-force.ts";
export { describeRejection, isRejection } from "./is-rejection.ts";
export { decideLost, describeLost, isUsable } from "./decide-lost.ts";
export type { LostReason, NodeFact } from "./decide-lost.ts";
export {
  findRejection,
  isRejecting,
  listRejectingNodes,
  makeRejectionMemory,
  rememberRejections,
} from "./rejections.ts";
export type { RejectedPod, Rejection, RejectionMemory } from "./rejections.ts";
