import type { ReservationService } from "@muster/proto";
import type { Handlers } from "../src/index.ts";

type Reservations = Handlers<typeof ReservationService>;

const empty = (): Promise<object> => Promise.resolve({});

/** Builds handlers that answer with an empty message, except for the given handlers. */
export function answered(handlers: Partial<Reservations> = {}): Reservations {
  return new Proxy(handlers as Reservations, {
    get: (given, name): unknown => Reflect.get(given, name) ?? empty,
  });
}
