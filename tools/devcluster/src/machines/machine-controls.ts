import { once } from "node:events";
import { type IncomingMessage, request as httpRequest } from "node:http";
import { parseJson, readBody } from "../apiserver/body.ts";
import { textAt } from "../apiserver/json.ts";
import type { ControlAddress } from "../faults/fault-controls.ts";
import type { MachineRule } from "./decide-launch.ts";
import { type MachineCommand, type MachineCounters, readMachineCounters } from "./read-machines.ts";

/** What a test asks of a cloud. Each resolves once it is in force, with the counters after it. */
export type MachineControls = {
  inject(...rules: readonly MachineRule[]): Promise<MachineCounters>;
  /** Without ids: all rules, with what they have counted. */
  remove(...ids: readonly string[]): Promise<MachineCounters>;
  /** Tells from now on that the machine goes away after so long. */
  loseSpot(nodeName: string, noticeMs: number): Promise<MachineCounters>;
  /** The machine disappears, and nobody is told. */
  vanish(nodeName: string): Promise<MachineCounters>;
  counters(): Promise<MachineCounters>;
};

type Perform = (command: MachineCommand) => Promise<MachineCounters>;

/** The controls of a cloud in another process. */
export function remoteMachineControls(address: ControlAddress): MachineControls {
  return machineControls((command) => send(address, command));
}

export function machineControls(perform: Perform): MachineControls {
  return {
    inject: (...rules) => perform({ do: "inject", rules }),
    remove: (...ids) => perform(ids.length === 0 ? { do: "remove" } : { do: "remove", ids }),
    loseSpot: (nodeName, noticeMs) => perform({ do: "lose-spot", nodeName, noticeMs }),
    vanish: (nodeName) => perform({ do: "vanish", nodeName }),
    counters: () => perform({ do: "count" }),
  };
}

async function send({ url, token }: ControlAddress, command: MachineCommand): Promise<MachineCounters> {
  const headers = { authorization: `Bearer ${token}` };
  const request = httpRequest(`${url}/v1/control`, { method: "POST", agent: false, headers });
  request.end(JSON.stringify(command));
  const [response] = (await once(request, "response")) as [IncomingMessage];
  const body = parseJson(await readBody(response), "counters");
  if (response.statusCode !== 200) throw new Error(`commanding the cloud: ${textAt(body, "error", "message")}`);
  return readMachineCounters(body);
}
