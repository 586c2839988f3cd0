import { makeByteClient, makeClient, type Bus, type ByteClient, type CallOptions } from "@muster/bus";
import type { Route } from "@muster/gateway-api";
import type { ServiceDescriptor } from "@muster/proto";
import type { Call } from "../api/answer-request.ts";
import type { CallBytes } from "../api/shared-reads.ts";

type AnyClient = Readonly<Record<string, (request: object, options: CallOptions) => ReturnType<Call>>>;

/** Creates the function that makes calls over the bus. It rejects with the error that `bus` throws. Aborting the caller's signal aborts its call. */
export function openCalls(bus: () => Bus, timeoutMs: number): Call {
  // The cast is needed, because the table names methods without keeping their types.
  const callsOf = clientsBy<AnyClient>((service) => makeClient(bus(), service));
  return async (route, request, signal) =>
    callOf(callsOf(route.resource.service), route)(request, { timeoutMs, signal });
}

/** Creates calls as `openCalls` does, with replies that stay encoded. They have no caller's signal, and end with their reply or their timeout. */
export function openByteCalls(bus: () => Bus, timeoutMs: number): CallBytes {
  const callsOf = clientsBy<ByteClient>((service) => makeByteClient(bus(), service));
  return async (route, request) => callOf(callsOf(route.resource.service), route)(request, { timeoutMs });
}

function clientsBy<Each>(make: (service: ServiceDescriptor) => Each): (service: ServiceDescriptor) => Each {
  const clients = new Map<ServiceDescriptor, Each>();
  return (service) => {
    const known = clients.get(service) ?? make(service);
    clients.set(service, known);
    return known;
  };
}

function callOf<Ask>(calls: Readonly<Record<string, Ask>>, { resource, call }: Route): Ask {
  const ask = calls[call];
  if (ask === undefined) throw new Error(`${resource.service.name} has no method ${call}`);
  return ask;
}
