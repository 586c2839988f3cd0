import type { MessageOf, MethodDescriptor, PropertiesOf, ServiceDescriptor } from "@muster/proto";
import type { Bus } from "./bus.ts";

export type CallOptions = {
  /** Time for the whole call, retries included. Default 5000. Crosses the wire and ends the work there too. */
  readonly timeoutMs?: number;
  readonly signal?: AbortSignal;
};

/** A service as its callers see it: one function a method, typed by the generated code. Each rejects with FaultError and nothing else. */
export type Client<Service extends ServiceDescriptor> = {
  readonly [Name in keyof Service["methods"]]: Call<Service["methods"][Name]>;
};

type Call<Method extends MethodDescriptor> = (
  request: PropertiesOf<Method["request"]>,
  options?: CallOptions,
) => Promise<MessageOf<Method["reply"]>>;

/** Calls a service. While nobody answers (a restart, a change of leader) it asks again until the deadline, because nothing has been done yet. */
export function client<Service extends ServiceDescriptor>(bus: Bus, service: Service): Client<Service> {
  void bus;
  void service;
  throw new Error("pending");
}
