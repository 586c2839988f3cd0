export { startScheduler } from "./scheduler/start-scheduler.ts";
export type { SchedulerOptions } from "./scheduler/start-scheduler.ts";
export { startKubelet } from "./kubelet/start-kubelet.ts";
export type { Kubelet, KubeletOptions } from "./kubelet/start-kubelet.ts";
export { startApiServer } from "./apiserver/start-api-server.ts";
export type { ApiServer, ApiServerOptions } from "./apiserver/start-api-server.ts";
export type { KubeletAccess } from "./apiserver/kubelet-request.ts";
export { attachNodes, endLeftovers } from "./attach-nodes.ts";
export type { AttachedNodes, AttachOptions, NodePool } from "./attach-nodes.ts";
export { listPoolMachines, startDevCluster } from "./dev-cluster.ts";
export type { DevCluster, DevClusterOptions } from "./dev-cluster.ts";
export { startSimulatedNodes } from "./simulated-kubelet/start-simulated-nodes.ts";
export type {
  SimulatedNodes,
  SimulatedNodesOptions,
  SimulatedPool,
} from "./simulated-kubelet/start-simulated-nodes.ts";
export { startFaultyApi } from "./faults/start-faulty-api.ts";
export type { FaultyApi, FaultyApiOptions } from "./faults/start-faulty-api.ts";
export type { ControlAddress } from "./send-command.ts";
export type { FaultControls, FaultCounters, FaultRuleRequest } from "./faults/fault-controls.ts";
export type { FaultMatch, RequestFault } from "./faults/decide-fault.ts";
export { listNodes as machineNodesOf, startMachines } from "./machines/start-machines.ts";
export type { Machines, MachinesOptions } from "./machines/start-machines.ts";
export { makeKubeletNodes, makeSimulatedMachineNodes } from "./machines/machine-nodes.ts";
export type { JoinedNode, MachineNode, MachineNodes } from "./machines/machine-nodes.ts";
export { makeRemoteMachineControls } from "./machines/machine-controls.ts";
export type { MachineControls } from "./machines/machine-controls.ts";
export type { MachineFault, MachineMatch, MachineRule } from "./machines/decide-launch.ts";
export type { MachineType, MachineView } from "./machines/machine.ts";
