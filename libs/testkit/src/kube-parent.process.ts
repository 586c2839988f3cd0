import { startKubeApiServer } from "./kube-apiserver.ts";

/** Starts an API server, sends its parent the kubeconfig, and waits to be killed. */
const { kubeconfig } = await startKubeApiServer();
process.send?.({ kubeconfig });
