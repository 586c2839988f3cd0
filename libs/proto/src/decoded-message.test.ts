import { expect, it } from "vitest";
import { muster } from "./index.ts";

const { Reservation } = muster.reservation.v1;
const { PodState } = muster.watch.v1;

it("decodes missing fields to the defaults of their types", () => {
  const { id, owner, needs, state, because } = Reservation.decode(new Uint8Array());
  expect({ id, owner, needs, state, because }).toEqual({
    id: "",
    owner: undefined,
    needs: [],
    state: 0,
    because: undefined,
  });
  expect(PodState.decode(new Uint8Array()).exitCode).toBeUndefined();
});

it("decodes messages inside a message with their defaults", () => {
  const [need] = Reservation.decode(Reservation.encode({ needs: [{ pool: "gpu" }] }).finish()).needs;
  expect(need?.component).toBe("");
});

it("distinguishes a zero optional field from a missing one", () => {
  expect(PodState.decode(PodState.encode({ exitCode: 0 }).finish()).exitCode).toBe(0);
});

it("leaves out undefined and null when it encodes", () => {
  expect(Reservation.encode({ id: undefined, owner: null, because: undefined }).finish()).toHaveLength(0);
});

it("names the field of a oneof that is present", () => {
  const { LedgerEvent } = muster.reservation.v1;
  const event = LedgerEvent.decode(LedgerEvent.encode({ released: { id: "r-1" } }).finish());
  expect(event.event === "released" && event.released.id).toBe("r-1");
  expect(LedgerEvent.decode(new Uint8Array()).event).toBeUndefined();
});
