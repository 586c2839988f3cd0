export { textOf, toEnd, toNs, toOrder, toRenewal, toWireEnd, toWireOrder, toWireRenewal } from "./messages.ts";
export type { WireEnd, WireOrder, WireRenewal, WireTime } from "./messages.ts";
