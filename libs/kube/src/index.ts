export { kubeClient } from "./kube-client.ts";
export { openGet } from "./kube-http.ts";
export type { Query } from "./kube-http.ts";
export { informer } from "./informer.ts";
export type { Informer, InformerOptions, InformerTiming } from "./informer.ts";
export { kubeFault } from "./kube-fault.ts";
export type { KubeObject, ListPage, ListWatch, WatchEvent } from "./list-watch.ts";
export { listWatch } from "./list-watch.ts";
export { loadKube } from "./load-kube.ts";
