export { openPodSubscriptions } from "./pod-subscriptions.ts";
export type { PodWatchEvent } from "./pod-watch-event.ts";
export type { PodNews } from "./subscriber.ts";
export { followMark } from "./mark.ts";
export { openNodes, viewNodes } from "./nodes.ts";
export type { Nodes } from "./nodes.ts";
