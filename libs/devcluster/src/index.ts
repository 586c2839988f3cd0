export { startScheduler } from "./scheduler/start-scheduler.ts";
export type { SchedulerOptions } from "./scheduler/start-scheduler.ts";
export { startKubelet } from "./kubelet/start-kubelet.ts";
export type { Kubelet, KubeletOptions } from "./kubelet/start-kubelet.ts";
export { startApiServer } from "./apiserver/start-api-server.ts";
export type { ApiServer, ApiServerOptions } from "./apiserver/start-api-server.ts";
export type { KubeletAccess } from "./apiserver/kubelet-request.ts";
export { attachNodes, endLeftovers } from "./attach-nodes.ts";
export type { AttachedNodes, AttachOptions, NodePool } from "./attach-nodes.ts";
export { startDevCluster } from "./dev-cluster.ts";
export type { DevCluster, DevClusterOptions } from "./dev-cluster.ts";
export { startSimulatedNodes } from "./simulated-kubelet/start-simulated-nodes.ts";
export type {
  SimulatedNodes,
  SimulatedNodesOptions,
  SimulatedPool,
} from "./simulated-kubelet/start-simulated-nodes.ts";
export { startFaultyApi } from "./faults/start-faulty-api.ts";
export type { FaultyApi, FaultyApiOptions } from "./faults/start-faulty-api.ts";
export { remoteFaultControls } from "./faults/fault-controls.ts";
export type { ControlAddress, FaultControls } from "./faults/fault-controls.ts";
export type { FaultCounters, FaultRuleRequest } from "./faults/fault-commands.ts";
export type { FaultMatch, RequestFault } from "./faults/decide-fault.ts";
