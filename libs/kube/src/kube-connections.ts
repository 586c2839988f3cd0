import { RequestContext, type KubeConfig } from "@kubernetes/client-node";
import { throwFault } from "@muster/faults";
import { Agent, type Dispatcher } from "undici";
import { recordAnswer } from "./credential.ts";
import { KubeError, MalformedAnswerError } from "./kube-error.ts";
import { parseStatus } from "./kube-http.ts";

/** Interval at which connections are replaced, in case client certificates are renewed. */
const CONNECTIONS_KEPT_MS = 5 * 60_000;
/** Interval at which tokens are read again; after a refusal they are read immediately. */
const TOKEN_KEPT_MS = 10_000;
/** Maximum size of an answer. A list is read in pages; one page of 500 large pods has about 10 MiB. */
const MAX_ANSWER_BYTES = 64 * 1024 * 1024;

export type HttpRequest = {
  readonly method: "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
  /** Path from the root of the API, with its query. */
  readonly path: string;
  readonly body?: string;
  readonly contentType?: string;
  /** Discards the body of a successful answer; the call resolves with an empty text. */
  readonly isAnswerUnread?: boolean;
};

/** Connections to one API server, kept open and shared. */
type KubeConnections = AsyncDisposable & {
  /** Resolves with the body of an answer from 200 to 299. Rejects with KubeError for other answers, a TimeoutError, the signal's reason, or a network error. */
  send(request: HttpRequest, timeoutMs: number, signal?: AbortSignal): Promise<string>;
};

/** The parts of client-node that one request needs; renewed when they may be outdated. */
type Access = {
  readonly headers: Readonly<Record<string, string>>;
  readonly dispatcher: Dispatcher;
  readonly tokenAtMs: number;
  readonly connectedAtMs: number;
};

/**
 * Connects with client-node's server, credentials and proxy. At most `maxInFlight` requests are in flight; the others wait, within their time limit. Uses
 * undici's dispatcher, because a fetch takes several times the processor time of the request itself.
 */
export function makeKubeConnections(config: KubeConfig, maxInFlight: number): KubeConnections {
  const cluster = config.getCurrentCluster();
  if (cluster === null) {
    return throwFault({ code: "invalid_request", field: "kubeconfig", reason: "names no current cluster" });
  }
  const { origin, pathname } = new URL(cluster.server);
  const prefix = pathname.replace(/\/$/, "");
  const slots = limitInFlight(maxInFlight);
  let last: Access | undefined;
  let renewing: Promise<Access> | undefined;

  function current(refused?: Access): Access | Promise<Access> {
    const nowMs = performance.now();
    if (last !== undefined && last !== refused && nowMs - last.tokenAtMs < TOKEN_KEPT_MS) return last;
    renewing ??= renew(config, last, nowMs)
      .then((renewed) => (last = renewed))
      .finally(() => (renewing = undefined));
    return renewing;
  }

  function sendWith(by: Access, request: HttpRequest, time: CallTime): Promise<string> {
    return new Promise((resolve, reject) => {
      slots.take((release) => {
        const options = {
          origin,
          path: prefix + request.path,
          method: request.method,
          headers: {
            accept: "application/json",
            ...(request.body !== undefined && { "content-type": request.contentType ?? "application/json" }),
            ...by.headers,
          },
          // undici closes the connection after a DELETE with a body unless `reset` is false.
          ...(request.body !== undefined && { body: request.body, reset: false }),
        };
        exchange(by.dispatcher, options, time, request.isAnswerUnread === true)
          .finally(release)
          .then(resolve, reject);
      });
    });
  }

  return {
    send: (request, timeoutMs, signal) =>
      within(timeoutMs, signal, async (time) => {
        const first = await current();
        const answer = await sendWith(first, request, time)
          .catch(async (error: unknown) => {
            if (!(error instanceof KubeError) || error.code !== 401) throw error;
            return sendWith(await current(first), request, time);
          })
          .catch((error: unknown) => {
            if (error instanceof KubeError) recordAnswer(config, error.code);
            throw error;
          });
        recordAnswer(config, 200);
        return answer;
      }),
    [Symbol.asyncDispose]: async () => {
      await renewing?.catch(() => undefined);
      await last?.dispatcher.destroy();
    },
  };
}

async function renew(config: KubeConfig, known: Access | undefined, nowMs: number): Promise<Access> {
  const context = new RequestContext("http://unused", "GET");
  await config.applySecurityAuthentication(context);
  const headers = context.getHeaders();
  if (known !== undefined && nowMs - known.connectedAtMs < CONNECTIONS_KEPT_MS) {
    return { ...known, headers, tokenAtMs: nowMs };
  }
  // Requests in flight on the old connections still finish.
  known?.dispatcher.close().catch(() => undefined);
  return { headers, dispatcher: context.getDispatcher() ?? new Agent(), tokenAtMs: nowMs, connectedAtMs: nowMs };
}

/** The time limit of one call. `over`: the error that has ended the call. `cut`: called with this error; the work sets this function. */
type CallTime = { over: Error | undefined; cut: (why: Error) => void };

const NOTHING_TO_CUT = (): void => undefined;

/**
 * Rejects as soon as the time has passed or the signal is aborted. Uses one timer and no AbortSignal per call, because those cost more than the rest of a
 * request.
 */
function within<Value>(
  timeoutMs: number,
  signal: AbortSignal | undefined,
  work: (time: CallTime) => Promise<Value>,
): Promise<Value> {
  return new Promise((resolve, reject) => {
    const time: CallTime = { over: undefined, cut: NOTHING_TO_CUT };
    const end = (why: Error): void => {
      time.over = why;
      time.cut(why);
      reject(why);
    };
    const stop = (): void => end(getReason(signal));
    if (signal?.aborted === true) {
      stop();
      return;
    }
    const timer = setTimeout(() => {
      end(new DOMException(`no answer within ${timeoutMs} ms`, "TimeoutError"));
    }, timeoutMs);
    signal?.addEventListener("abort", stop);
    work(time)
      .finally(() => {
        clearTimeout(timer);
        signal?.removeEventListener("abort", stop);
      })
      .then(resolve, reject);
  });
}

/** Sends one request and reads its answer. Does not send it if its slot becomes free after its time limit. */
function exchange(
  dispatcher: Dispatcher,
  options: Dispatcher.DispatchOptions,
  time: CallTime,
  isUnread: boolean,
): Promise<string> {
  return new Promise((resolve, reject) => {
    if (time.over !== undefined) throw time.over;
    let status = 0;
    let answerHeaders: Readonly<Record<string, string | string[] | undefined>> = {};
    let bytes = 0;
    const chunks: Buffer[] = [];
    dispatcher.dispatch(options, {
      onRequestStart: (controller) => {
        time.cut = (why) => controller.abort(why);
        if (time.over !== undefined) time.cut(time.over);
      },
      onResponseStart: (_controller, code, headers) => {
        status = code;
        answerHeaders = headers;
      },
      onResponseData: (controller, chunk) => {
        if (isUnread && isSuccess(status)) return;
        bytes += chunk.length;
        chunks.push(chunk);
        if (bytes > MAX_ANSWER_BYTES) {
          controller.abort(new MalformedAnswerError(`the answer is longer than ${MAX_ANSWER_BYTES} bytes`));
        }
      },
      onResponseEnd: () => {
        time.cut = NOTHING_TO_CUT;
        const text = Buffer.concat(chunks).toString();
        if (isSuccess(status)) resolve(text);
        else reject(new KubeError(`${options.method} ${options.path}`, status, parseStatus(text), flat(answerHeaders)));
      },
      onResponseError: (_controller, error) => {
        time.cut = NOTHING_TO_CUT;
        reject(error);
      },
    });
  });
}

function isSuccess(status: number): boolean {
  return status >= 200 && status < 300;
}

function getReason(signal: AbortSignal | undefined): Error {
  const reason: unknown = signal?.reason;
  return reason instanceof Error ? reason : new Error(String(reason));
}

function flat(headers: Readonly<Record<string, string | string[] | undefined>>): Record<string, string> {
  return Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, String(value)]));
}

/** Starts at most `maxInFlight` requests concurrently; further requests wait in order. */
function limitInFlight(maxInFlight: number): { take(start: (release: () => void) => void): void } {
  const waiting: ((release: () => void) => void)[] = [];
  let inFlight = 0;
  const release = (): void => {
    const next = waiting.shift();
    if (next === undefined) inFlight -= 1;
    else next(release);
  };
  return {
    take: (start) => {
      if (inFlight >= maxInFlight) {
        waiting.push(start);
        return;
      }
      inFlight += 1;
      start(release);
    },
  };
}
