import { ApiException } from "@kubernetes/client-node";
import { expect, it } from "vitest";
import { isForbidden } from "./kube-fault.ts";
import { unlessFault, unlessMissing, withKubeFault } from "./unless-fault.ts";

const refused = (code: number): Promise<string> => Promise.reject(new ApiException(code, "", {}, {}));

it("returns undefined for expected faults, and rethrows others", async () => {
  expect(await unlessMissing(refused(404))).toBeUndefined();
  expect(await unlessFault(refused(409), "not_found", "conflict")).toBeUndefined();
  expect(await unlessFault(Promise.resolve(1), "conflict")).toBe(1);
  await expect(unlessMissing(refused(409))).rejects.toBeInstanceOf(ApiException);
});

it("rejects with the fault of a failed call, and with its operation", async () => {
  await expect(withKubeFault(refused(503), "listing pods")).rejects.toMatchObject({
    fault: { code: "unavailable" },
    message: expect.stringContaining("listing pods") as string,
    cause: { code: 503 },
  });
});

it("leaves defects and cancelled calls unchanged", async () => {
  const aborted = new DOMException("stopped", "AbortError");
  for (const error of [new TypeError("x"), aborted])
    await expect(withKubeFault(Promise.reject(error))).rejects.toBe(error);
});

it("distinguishes a missing right from other refusals", async () => {
  const failed = async (code: number): Promise<unknown> => refused(code).catch((error: unknown) => error);
  expect([isForbidden(await failed(403)), isForbidden(await failed(422))]).toEqual([true, false]);
});
