export { startScheduler } from "./scheduler/start-scheduler.ts";
export type { SchedulerOptions } from "./scheduler/start-scheduler.ts";
export { startKubelet } from "./kubelet/start-kubelet.ts";
export type { Kubelet, KubeletOptions } from "./kubelet/start-kubelet.ts";
export { startApiServer } from "./apiserver/start-api-server.ts";
export type { ApiServer, ApiServerOptions } from "./apiserver/start-api-server.ts";
export type { KubeletAccess } from "./apiserver/pod-log.ts";
