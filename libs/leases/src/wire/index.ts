export { toTimeText, toEnd, toNs, toOrder, toRenewal, toWireEnd, toWireOrder, toWireRenewal } from "./messages.ts";
