export { openPodSubscriptions } from "./pod-subscriptions.ts";
export type { PodSubscriptions, PodSubscriptionsOptions } from "./pod-subscriptions.ts";
export type { Owner, PodWatchEvent } from "./pod-watch-event.ts";
export type { PodNews } from "./subscriber.ts";
