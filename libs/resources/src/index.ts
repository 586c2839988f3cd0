export { amountOf, amountsOf, type Amounts } from "./amounts.ts";
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
  holdsMinimum,
  indexSelections,
  matchesAll,
  matchesNode,
  matchesNodeTerm,
  minimumOf,
  NODE_SELECTOR_OPERATORS,
  nodeSelectionKey,
  restrictSelection,
  tolerates,
  untolerated,
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
export {
  acceptedPools,
  countPoolOptions,
  hasOtherPools,
  listPoolOptions,
  MAX_ACCEPTED_POOLS,
  MAX_POOL_OPTIONS,
} from "./pool-options.ts";
export { amountsKey, compareLargestFirst } from "./order.ts";
export {
  buildPodDefaults,
  NO_DEFAULTS,
  type PodDefaults,
  type WrittenLimitRange,
  type WrittenRuntimeClass,
} from "./pod-defaults.ts";
export { podRequests, type RequestingPod } from "./pod-requests.ts";
export { NANO, parseQuantity, printAmount, printQuantity, roundAmount } from "./quantity.ts";
export { allocatedFraction, fitsInto, freeOf, subtract, useOf, type NodeLoad } from "./room.ts";
export {
  commonTolerations,
  EXCLUSIVE,
  grantedAffinity,
  grantedNodeOf,
  nodeSelectionOf,
  SHARED,
  tolerationsOf,
  type WrittenPlacement,
} from "./spec-placement.ts";
export { COUNTABLE, isCountable, specRequests, type Requests, type WrittenPodSpec } from "./spec-requests.ts";
export { isObject, objectsOf, type PlainObject } from "./written-fields.ts";
