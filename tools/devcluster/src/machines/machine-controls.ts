import { type ControlAddress, sendCommand } from "../send-command.ts";
import type { MachineRule } from "./decide-launch.ts";
import { type MachineCommand, type MachineCounters, readMachineCounters } from "./read-machines.ts";

/** The controls of a cloud for tests. Each resolves with the counters once it is in force. */
export type MachineControls = {
  inject(...rules: readonly MachineRule[]): Promise<MachineCounters>;
  /** Removes the rules and their counts; without ids, all of them. */
  remove(...ids: readonly string[]): Promise<MachineCounters>;
  /** Immediately announces the loss of the machine after this time. */
  loseSpot(nodeName: string, noticeMs: number): Promise<MachineCounters>;
  /** The machine disappears without notice. */
  vanish(nodeName: string): Promise<MachineCounters>;
  counters(): Promise<MachineCounters>;
};

type Perform = (command: MachineCommand) => Promise<MachineCounters>;

/** The controls of a cloud in another process. */
export function makeRemoteMachineControls(address: ControlAddress): MachineControls {
  return makeMachineControls(async (command) => {
    const url = `${address.url}/v1/control`;
    return readMachineCounters(await sendCommand({ ...address, url }, command));
  });
}

export function makeMachineControls(perform: Perform): MachineControls {
  return {
    inject: (...rules) => perform({ do: "inject", rules }),
    remove: (...ids) => perform(ids.length === 0 ? { do: "remove" } : { do: "remove", ids }),
    loseSpot: (nodeName, noticeMs) => perform({ do: "lose-spot", nodeName, noticeMs }),
    vanish: (nodeName) => perform({ do: "vanish", nodeName }),
    counters: () => perform({ do: "count" }),
  };
}
