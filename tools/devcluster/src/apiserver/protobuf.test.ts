import protobuf from "protobufjs";
import { describe, expect, it } from "vitest";
import { decodeProtobuf } from "./protobuf.ts";

const MAGIC = [0x6b, 0x38, 0x73, 0x00];

type Part = (writer: protobuf.Writer) => void;
const text =
  (number: number, value: string): Part =>
  (writer) =>
    writer.uint32((number << 3) | 2).string(value);
const whole =
  (number: number, value: number): Part =>
  (writer) =>
    writer.uint32(number << 3).int64(value);
const message =
  (number: number, ...parts: Part[]): Part =>
  (writer) =>
    writer.uint32((number << 3) | 2).bytes(build(parts));

function build(parts: readonly Part[]): Uint8Array {
  const writer = protobuf.Writer.create();
  for (const part of parts) part(writer);
  return writer.finish();
}

/** Encodes an object as a Go client does. */
function envelope(apiVersion: string, kind: string, ...parts: Part[]): Buffer {
  const unknown = build([message(1, text(1, apiVersion), text(2, kind)), message(2, ...parts)]);
  return Buffer.concat([Buffer.from(MAGIC), unknown]);
}

const expected = { apiVersion: "v1", kind: "Pod" };

describe("objects in protobuf", () => {
  it("become the same JSON", () => {
    const metadata = message(1, text(1, "a"), text(2, ""), message(8), message(11, text(1, "k"), text(2, "v")));
    const map = envelope("v1", "ConfigMap", metadata, message(2, text(1, "x"), text(2, "")));
    expect(decodeProtobuf(map, expected)).toEqual({
      kind: "ConfigMap",
      apiVersion: "v1",
      metadata: { name: "a", labels: { k: "v" } },
      data: { x: "" },
    });
  });

  it("keep a zero only where Go has a pointer", () => {
    const pod = envelope("v1", "Pod", message(2, whole(4, 0), whole(11, 0), text(3, "")));
    expect(decodeProtobuf(pod, expected)).toEqual({
      kind: "Pod",
      apiVersion: "v1",
      spec: { terminationGracePeriodSeconds: 0 },
    });
  });

  it("have times, quantities, numbers or texts, and embedded fields in JSON's form", () => {
    const limits = message(1, text(1, "cpu"), message(2, text(1, "500m")));
    const probe = message(1, message(2, text(1, "/"), message(2, whole(1, 1), whole(2, 0), text(3, "http"))));
    const container = message(2, text(1, "c"), message(8, limits), message(11, probe));
    const owner = message(1, message(9, whole(1, 1_700_000_000)));
    expect(decodeProtobuf(envelope("v1", "Pod", owner, message(2, container)), expected)).toMatchObject({
      metadata: { deletionTimestamp: "2023-11-14T22:13:20Z" },
      spec: {
        containers: [
          {
            name: "c",
            resources: { limits: { cpu: "500m" } },
            readinessProbe: { httpGet: { path: "/", port: "http" } },
          },
        ],
      },
    });
  });

  it("are unknown for kinds without such a form here", () => {
    expect(decodeProtobuf(envelope("apps/v1", "DaemonSet"), expected)).toBeUndefined();
  });

  it.each([
    ["something else", Buffer.from("{}"), "expected prefix [107 56 115 0]"],
    ["cut off", envelope("v1", "Pod", message(1, text(1, "a long name"))).subarray(0, -4), "invalid protobuf message"],
  ])("are refused when they are %s", (_what, bytes, because) => {
    expect(() => decodeProtobuf(bytes, expected)).toThrow(because);
  });
});
