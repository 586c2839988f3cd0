export { amountOf, amountsOf, type Amounts } from "./amounts.ts";
export {
  acceptsNode,
  compactNodeSelection,
  describeNodeSelection,
  indexSelections,
  matchesAll,
  matchesNode,
  matchesNodeTerm,
  NODE_SELECTOR_OPERATORS,
  nodeSelectionKey,
  tolerates,
  untolerated,
  type NodeSelection,
  type NodeSelectorRequirement,
  type NodeSelectorTerm,
  type Taint,
  type Toleration,
} from "./node-selection.ts";
export { amountsKey, compareLargestFirst } from "./order.ts";
export { podRequests, type RequestingPod } from "./pod-requests.ts";
export { NANO, parseQuantity, printAmount, printQuantity, roundAmount } from "./quantity.ts";
export { allocatedFraction, fitsInto, freeOf, subtract, useOf, type NodeLoad } from "./room.ts";
