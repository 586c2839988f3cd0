export { openPodSubscriptions } from "./pod-subscriptions.ts";
export type { PodSubscriptions, PodSubscriptionsOptions } from "./pod-subscriptions.ts";
export type { Owner, PodWatchEvent } from "./pod-watch-event.ts";
export type { PodNews } from "./subscriber.ts";
export { followMark } from "./mark.ts";
export type { MarkOptions } from "./mark.ts";
export { openNodes, viewNodes } from "./nodes.ts";
export type { Nodes, NodesOptions } from "./nodes.ts";
