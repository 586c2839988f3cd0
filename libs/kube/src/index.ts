export { informer } from "./informer.ts";
export type { Informer, InformerOptions } from "./informer.ts";
export { kubeFault } from "./kube-fault.ts";
export type { KubeObject, ListWatch, ListPage } from "./list-watch.ts";
export { listWatch } from "./list-watch.ts";
export { loadKube } from "./load-kube.ts";
