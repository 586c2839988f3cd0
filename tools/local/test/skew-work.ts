import { expect } from "vitest";
import { buildJob, buildLeases, buildReplicaSet, buildSession } from "./skew-documents.ts";
import type { Command, Skew } from "./skew-world.ts";

/** Runs every kind of work from submission to end, with one command line. */
export async function expectAllWorks(skew: Skew, cli: Command, name: string, number: number): Promise<void> {
  const key = skew.path(`${name}.key`);
  const run = async (): Promise<void> => {
    await cli(`run ${await skew.fileOf(`${name}.yaml`, [buildSession(`${name}-session`), buildJob(`${name}-job`)])}`);
    expect(await cli(`get session ${name}-session -o json`)).toContain("answer");
    for (const of of [`${name}-session`, `job/${name}-job`]) {
      await cli(`explain ${of}`);
      expect((await cli(`events ${of}`)).split("\n").length).toBeGreaterThan(3);
      await cli(`logs ${of}`);
    }
    for (const of of [`session ${name}-session`, `job ${name}-job`])
      expect(await cli(`describe ${of}`)).toContain(name);
    expect(await cli("get sessions")).toContain(`${name}-session`);
    expect(await cli("get jobs")).toContain(`${name}-job`);
    await cli(`delete session/${name}-session`);
    expect(await cli("get sessions")).not.toContain(`${name}-session`);
  };
  const keepSet = async (): Promise<void> => {
    await cli(`apply ${await skew.fileOf(`${name}-set.yaml`, [buildReplicaSet(`${name}-set`)])} --wait`);
    await cli(`scale ${name}-set --replicas 2`);
    await cli(`wait replica-set/${name}-set --for=condition=Ready --timeout 2m`);
    expect(await cli("get rs")).toContain(`${name}-set`);
    await cli(`explain replica-set/${name}-set`);
    expect(await cli(`describe rs ${name}-set`)).toContain(`${name}-set-1`);
    await cli(`delete ${name}-set --force --wait`);
  };
  const lease = async (): Promise<void> => {
    await cli(`keys new --key-file ${key}`);
    const file = await skew.fileOf(`${name}-leases.yaml`, buildLeases(number));
    await cli(`lease order -f ${file} --key-file ${key} --wait --timeout 2m`);
    expect(await cli(`lease get --mine --active --key-file ${key}`)).toContain(`${number}-2`);
    await cli(`explain lease/${number}-2`);
    expect(await cli(`describe lease ${number}-2`)).toContain("ACTIVE");
    for (const index of [2, 1]) await cli(`lease end ${number}-${index} --key-file ${key} --wait --timeout 2m`);
  };
  const list = async (): Promise<void> => {
    const { url, tokenFile } = skew.world.stack.api;
    for (const line of [
      "get pools",
      "get reservations",
      "get queues",
      "nodes",
      "events",
      "version",
      "dead-letters list",
    ])
      await cli(line);
    for (const line of ["get sessions", "get jobs", "get rs", "get pools", "version"])
      await cli(`--server ${url} --token-file ${tokenFile} ${line}`);
  };
  await Promise.all([run(), keepSet(), lease(), list()]);
}

/** Work that is over, runs, or waits for machines, and lasts while services are replaced. */
export async function startLasting(skew: Skew): Promise<void> {
  const { oldCli: cli, path } = skew;
  const work = [buildSession("over"), buildJob("over-job")];
  await cli(`run ${await skew.fileOf("over.yaml", work)}`);
  const running = [buildSession("long", path("end")), buildJob("long-job", { replicas: 2, file: path("end") })];
  await cli(`run --detach ${await skew.fileOf("long.yaml", running)}`);
  await cli(`apply ${await skew.fileOf("set.yaml", [buildReplicaSet("long-set", 2)])} --wait`);
  await cli(`keys new --key-file ${path("key")}`);
  await cli(`lease order -f ${await skew.fileOf("leases.yaml", buildLeases(4711))} --key-file ${path("key")} --wait`);
  await cli("wait job/long-job --for=condition=Running --timeout 2m");
  await cli("wait long --for=condition=RUN --timeout 2m");
  // Fits once the long work has ended.
  await cli(
    `run --detach ${await skew.fileOf("waiting.yaml", [buildJob("waiting", { replicas: 6, file: path("end") })])}`,
  );
}

/** Expects that both command lines show the lasting work unchanged. */
export async function expectLasting({ newCli, oldCli }: Skew): Promise<void> {
  for (const cli of [oldCli, newCli]) {
    const [sessions, jobs, sets, held] = await Promise.all(
      ["get sessions", "get jobs", "get rs", "get leases"].map((line) => cli(line)),
    );
    expect(sessions).toMatch(/^long +RUN/m);
    expect(sessions).toMatch(/^over +DONE/m);
    expect(jobs).toMatch(/^over-job .*SUCCEEDED/im);
    expect(jobs).toMatch(/^long-job .*RUNNING/im);
    expect(jobs).toMatch(/^waiting .*(QUEUED|WAITING|PENDING)/im);
    expect(sets).toMatch(/^long-set +READY +2/m);
    expect(held).toMatch(/^4711-2 .*ACTIVE/m);
  }
}

/** Lets the lasting work end. */
export async function endLasting({ newCli, touch, path }: Skew): Promise<void> {
  await touch("end");
  await newCli("wait long --for=condition=DONE --timeout 2m");
  for (const name of ["long-job", "waiting"]) await newCli(`wait job/${name} --for=condition=Succeeded --timeout 2m`);
  await newCli("delete long-set --force --wait");
  for (const id of ["4711-2", "4711-1"]) await newCli(`lease end ${id} --key-file ${path("key")} --wait`);
}
