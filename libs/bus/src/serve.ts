import type { MessageOf, MethodDescriptor, PropertiesOf, ServiceDescriptor } from "@muster/proto";
import type { Bus } from "./bus.ts";

export type CallContext = {
  /** Aborted at the caller's deadline, when the caller gives up, and when the service stops. */
  readonly signal: AbortSignal;
  /** Milliseconds since 1970 at which the caller stops waiting. */
  readonly deadlineMs: number;
};

/** One function a method. It answers, or throws a FaultError that arrives as the same fault; any other error is a defect: logged, answered as internal. */
export type Handlers<Service extends ServiceDescriptor> = {
  readonly [Name in keyof Service["methods"]]: Handler<Service["methods"][Name]>;
};

type Handler<Method extends MethodDescriptor> = (
  request: MessageOf<Method["request"]>,
  context: CallContext,
) => Promise<PropertiesOf<Method["reply"]>>;

export type ServeOptions = {
  readonly version: string;
  readonly description: string;
  /** Requests in hand at once, per method. Default 256. */
  readonly concurrency?: number;
  /** Told about defects; faults are the caller's business. */
  readonly onDefect?: (method: string, error: unknown) => void;
};

/** Serves all methods of a service until disposed. */
export function serve<Service extends ServiceDescriptor>(
  bus: Bus,
  service: Service,
  handlers: Handlers<Service>,
  options: ServeOptions,
): Promise<AsyncDisposable> {
  void bus;
  void service;
  void handlers;
  void options;
  throw new Error("pending");
}
