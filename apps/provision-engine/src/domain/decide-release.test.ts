import type { Order } from "@muster/leases";
import { expect, it } from "vitest";
import { aLease, anOrder } from "./a-lease.ts";
import { decideRelease } from "./decide-release.ts";
import type { Phase } from "./lease.ts";

const volume = anOrder({ id: "1-1", type: "volume", data: '{"size":1,"type":"ssd","network":"net"}' });
const net = anOrder({ id: "1-2", type: "network", data: '{"name":"net"}' });
const capacity = { cpu: 1, memory: 1024 };
const container = (phase: Phase, order: Partial<Order> = {}, mounts = ["1-1"], network = "net") =>
  aLease({
    phase,
    order: {
      id: "1-3",
      type: "container",
      data: JSON.stringify({
        image: "i",
        capacity,
        network,
        mounts: mounts.map((volume_id) => ({ volume_id, mountpoint: "/m" })),
      }),
      ...order,
    },
  });

const decide = (order: Order, ofUser: ReturnType<typeof aLease>[]) => decideRelease(order, { ofUser });

it.each([
  ["PROVISIONING", "later"],
  ["ACTIVE", "later"],
  ["DECOMMISSIONING", "later"],
  ["ORDERED", "yes"],
  ["ENDED", "yes"],
  ["FAILED", "yes"],
] as const)("of a volume and a network that a container which is %s uses: %s", (phase, release) => {
  expect(decide(volume, [container(phase)]).release).toBe(release);
  expect(decide(net, [container(phase)]).release).toBe(release);
});

it("lets go what others only look like using", () => {
  const others = [
    container("ACTIVE", { user: "other" }),
    container("ACTIVE", { id: "1-4" }, ["1-9"], "other"),
    container("ACTIVE", { id: "1-5", data: "{" }),
    aLease({ order: net }),
    aLease({ order: volume }),
  ];
  expect(decide(volume, others)).toEqual({ release: "yes", because: "nothing lives in it" });
  expect(
    decide(
      net,
      others.filter(({ order }) => order.id !== "1-1"),
    ).release,
  ).toBe("yes");
  expect(decide(net, others).because).toBe("it is in use by 1-1");
});

it("names some of many that use it", () => {
  const many = Array.from({ length: 7 }, (_, at) => container("ACTIVE", { id: `2-${at}` }));
  expect(decide(volume, many).because).toBe("it is in use by 2-0, 2-1, 2-2, 2-3, 2-4 and 2 more");
});

it("asks for no lease of the user where nothing can live in it", () => {
  const holdings = {
    get ofUser(): never {
      throw new Error("asked");
    },
  };
  expect(decideRelease(anOrder({ type: "debug", data: "{}" }), holdings).release).toBe("yes");
  expect(() => decideRelease(anOrder({ type: "volume" }), holdings)).toThrow("asked");
});
