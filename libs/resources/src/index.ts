export { parseAmount, parseAmounts, type Amounts } from "./amounts.ts";
export {
  describeCrowding,
  findCrowded,
  isCrowdedOut,
  type CrowdedComponent,
  type CrowdingMemory,
  type ComponentPlace,
  type PlaceLoad,
} from "./crowding.ts";
export {
  acceptsNode,
  compactNodeSelection,
  describeNodeSelection,
  canHoldMinimum,
  indexSelections,
  matchesAll,
  matchesNode,
  matchesNodeTerm,
  getMinimum,
  NODE_SELECTOR_OPERATORS,
  buildNodeSelectionKey,
  avoidNodes,
  restrictSelection,
  isTolerated,
  findUntolerated,
  withMinimum,
  withoutMinimum,
  type NodeSelection,
  type NodeSelectorRequirement,
  type NodeSelectorTerm,
  type SelectableNode,
  type Taint,
  type Toleration,
} from "./node-selection.ts";
export { indexPoolLists } from "./pool-lists.ts";
export { describePrices, formatPrice } from "./prices.ts";
export {
  listAcceptedPools,
  countPoolOptions,
  hasOtherPools,
  listPoolOptions,
  MAX_ACCEPTED_POOLS,
  MAX_POOL_OPTIONS,
} from "./pool-options.ts";
export { buildAmountsKey, compareLargestFirst } from "./order.ts";
export {
  buildPodDefaults,
  NO_DEFAULTS,
  type PodDefaults,
  type WrittenLimitRange,
  type WrittenRuntimeClass,
} from "./pod-defaults.ts";
export { computePodRequests, type RequestingPod } from "./pod-requests.ts";
export { NANO, parseQuantity, printAmount, printQuantity, roundAmount } from "./quantity.ts";
export {
  computeAllocatedFraction,
  canFit,
  computeFreeAmounts,
  subtractAmounts,
  sumUse,
  type NodeLoad,
} from "./room.ts";
export {
  listCommonTolerations,
  EXCLUSIVE,
  buildGrantedAffinity,
  findGrantedNode,
  readNodeSelection,
  SHARED,
  readTolerations,
  type WrittenPlacement,
} from "./spec-placement.ts";
export { COUNTABLE, isCountable, computeSpecRequests, type Requests, type WrittenPodSpec } from "./spec-requests.ts";
export { isObject, toObjects, type PlainObject } from "./written-fields.ts";
