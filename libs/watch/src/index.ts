export { openCrowding, type Crowding } from "./crowding.ts";
export { followMark } from "./mark.ts";
export { openNodes, viewNodes } from "./nodes.ts";
export type { Nodes } from "./nodes.ts";
