export { natsServer } from "./nats.ts";
export type { TestNats } from "./nats.ts";
export { until } from "./until.ts";
export { fixedClock } from "./clock.ts";
