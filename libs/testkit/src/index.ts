export { natsServer } from "./nats.ts";
export type { TestNats } from "./nats.ts";
export { until } from "./until.ts";
export { fixedClock } from "./clock.ts";
export { kubeApiServer, kubeAssets } from "./kube-apiserver.ts";
export type { KubeAssets, TestKubeApiServer } from "./kube-apiserver.ts";
export { otlpCollector } from "./otlp-collector.ts";
export type { OtlpCollector, ReceivedSpan } from "./otlp-collector.ts";
