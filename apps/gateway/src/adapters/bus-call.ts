import { client, type Bus, type CallOptions } from "@muster/bus";
import type { ServiceDescriptor } from "@muster/proto";
import type { Call } from "../api/answer-request.ts";

type AnyClient = Readonly<Record<string, (request: object, options: CallOptions) => ReturnType<Call>>>;

/** Calls over the bus. A call ends with its caller. */
export function openCalls(bus: Bus, timeoutMs: number): Call {
  const clients = new Map<ServiceDescriptor, AnyClient>();
  const clientOf = (service: ServiceDescriptor): AnyClient => {
    // The table names methods of the service, whose types it does not keep.
    const known = clients.get(service) ?? client(bus, service);
    clients.set(service, known);
    return known;
  };
  return ({ resource, call }, request, signal) => {
    const ask = clientOf(resource.service)[call];
    if (ask === undefined) throw new Error(`${resource.service.name} has no method ${call}`);
    return ask(request, { timeoutMs, signal });
  };
}
