import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

/** Names the run of a container in the environment of its processes, which identifies all of their descendants. */
export const CONTAINER_VARIABLE = "MUSTER_CONTAINER_ID";

/** Identifies a process group that this node started, also after a crash. */
type ProcessRecord = {
  readonly pid: number;
  /** Start time in clock ticks after boot, from /proc, which differs for a reused process id. */
  readonly startTime: string;
  readonly bootId: string;
  readonly containerId: string;
};

/** A session id that no process has. */
const NO_SESSION = -1;
const KILL_ROUNDS = 5;
const LEFTOVERS_GONE_MS = 5_000;

/** Returns a value that differs for a later process with the same id. Undefined for an ended process, and without /proc. */
export function readIdentity(pid: number): string | undefined {
  const startTime = readStartTime(pid);
  return startTime === undefined ? undefined : `${readBootId()}/${startTime}`;
}

/** Signals a process group; returns false if it has ended. */
export function signalGroup(pid: number, signal: NodeJS.Signals): boolean {
  try {
    process.kill(-pid, signal);
    return true;
  } catch (error) {
    if (isErrno(error, "ESRCH")) return false;
    // macOS refuses to signal a group of zombies only.
    if (isErrno(error, "EPERM")) return false;
    throw error;
  }
}

/**
 * Kills the remains of a container: its group, its session, and descendants outside both that still carry its name. Without /proc (not Linux), only the group.
 */
export function killTree(pid: number, containerId: string): void {
  signalGroup(pid, "SIGKILL");
  for (let round = 0; round < KILL_ROUNDS; round++) {
    const members = listProcesses(new Map([[containerId, pid]]));
    if (members.length === 0) return;
    for (const member of members) killOne(member);
  }
}

/** Records a newly started process group; the returned function removes the record. */
export function recordProcess(directory: string, pid: number, containerId: string): () => void {
  const path = join(buildRecordsPath(directory), String(pid));
  const record: ProcessRecord = { pid, startTime: readStartTime(pid) ?? "", bootId: readBootId(), containerId };
  mkdirSync(buildRecordsPath(directory), { recursive: true });
  writeFileSync(path, JSON.stringify(record), { mode: 0o600 });
  return () => {
    rmSync(path, { force: true });
  };
}

/**
 * Ends the processes that an earlier kubelet of this node left behind, and resolves with their number. A process is signalled only if its start time, or the
 * container's name in its environment, proves that it is ours.
 */
export async function killLeftovers(directory: string): Promise<number> {
  const records = readRecords(directory);
  const bootId = readBootId();
  const ours = new Map<string, number>();
  const seen = new Set<number>();
  for (const record of records.filter((each) => each.bootId === bootId)) {
    const isSame = record.startTime !== "" && readStartTime(record.pid) === record.startTime;
    if (isSame && signalGroup(record.pid, "SIGKILL")) seen.add(record.pid);
    ours.set(record.containerId, isSame ? record.pid : NO_SESSION);
  }
  const end = performance.now() + LEFTOVERS_GONE_MS;
  while (ours.size > 0) {
    const members = listProcesses(ours);
    if (members.length === 0) break;
    if (performance.now() > end) {
      throw new Error(`processes of an earlier kubelet do not end: ${members.join(", ")}`);
    }
    for (const member of members) {
      seen.add(member);
      killOne(member);
    }
    await sleep(20);
  }
  rmSync(buildRecordsPath(directory), { recursive: true, force: true });
  return seen.size;
}

/** Finds live processes of the containers, by the name in their environment, or by the session of the container's first process. */
function listProcesses(containers: ReadonlyMap<string, number>): number[] {
  const sessions = new Set(containers.values());
  return processIds().filter((pid) => {
    if (pid === process.pid) return false;
    const stat = readStat(pid);
    if (stat === undefined || stat.state === "Z" || stat.state === "X") return false;
    if (sessions.has(stat.session)) return true;
    const name = readEnvironment(pid).find((variable) => variable.startsWith(`${CONTAINER_VARIABLE}=`));
    return name !== undefined && containers.has(name.slice(CONTAINER_VARIABLE.length + 1));
  });
}

function processIds(): number[] {
  try {
    return readdirSync("/proc")
      .filter((name) => /^\d+$/.test(name))
      .map(Number);
  } catch {
    return [];
  }
}

function readEnvironment(pid: number): string[] {
  return (readProc(`/proc/${pid}/environ`) ?? "").split("\0");
}

type ProcessStat = { readonly state: string; readonly session: number; readonly startTime: string };

function readStat(pid: number): ProcessStat | undefined {
  const text = readProc(`/proc/${pid}/stat`);
  if (text === undefined) return undefined;
  // The second field is the command in parentheses, which may itself contain parentheses and spaces.
  const fields = text.slice(text.lastIndexOf(")") + 2).split(" ");
  return { state: fields[0] ?? "", session: Number(fields[3]), startTime: fields[19] ?? "" };
}

function readStartTime(pid: number): string | undefined {
  const stat = readStat(pid);
  return stat === undefined || stat.state === "Z" ? undefined : stat.startTime;
}

function readBootId(): string {
  return readProc("/proc/sys/kernel/random/boot_id")?.trim() ?? "";
}

/** Returns undefined for an ended process, and for one of another user. */
function readProc(path: string): string | undefined {
  try {
    return readFileSync(path, "latin1");
  } catch {
    return undefined;
  }
}

function killOne(pid: number): void {
  try {
    process.kill(pid, "SIGKILL");
  } catch (error) {
    if (!isErrno(error, "ESRCH")) throw error;
  }
}

function readRecords(directory: string): ProcessRecord[] {
  let names: string[];
  try {
    names = readdirSync(buildRecordsPath(directory));
  } catch (error) {
    if (isErrno(error, "ENOENT")) return [];
    throw error;
  }
  return names.flatMap((name) => {
    const record = parseRecord(readFileSync(join(buildRecordsPath(directory), name), "utf8"));
    return record === undefined ? [] : [record];
  });
}

/** A record cut short by a crash names no process that can be proven ours. */
function parseRecord(text: string): ProcessRecord | undefined {
  try {
    const parsed: unknown = JSON.parse(text);
    return isRecord(parsed) ? parsed : undefined;
  } catch {
    return undefined;
  }
}

function isRecord(value: unknown): value is ProcessRecord {
  return (
    typeof value === "object" &&
    value !== null &&
    "pid" in value &&
    Number.isSafeInteger(value.pid) &&
    "startTime" in value &&
    typeof value.startTime === "string" &&
    "bootId" in value &&
    typeof value.bootId === "string" &&
    "containerId" in value &&
    typeof value.containerId === "string"
  );
}

function buildRecordsPath(directory: string): string {
  return join(directory, "processes");
}

function isErrno(error: unknown, code: string): boolean {
  return error instanceof Error && "code" in error && error.code === code;
}
