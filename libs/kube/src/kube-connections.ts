import { RequestContext, type KubeConfig } from "@kubernetes/client-node";
import { throwFault } from "@muster/faults";
import { Agent, type Dispatcher } from "undici";
import { KubeError, MalformedAnswerError } from "./kube-error.ts";
import { parseStatus } from "./kube-http.ts";

/** Connections are made with new credentials this often, in case client certificates are renewed. */
const CONNECTIONS_KEPT_MS = 5 * 60_000;
/** Tokens are asked for again this often; one that is refused at once. */
const TOKEN_KEPT_MS = 10_000;
/** An API server answers a list in pages; one page of 500 large pods has some 10 MiB. */
const ANSWER_BYTES_MAX = 64 * 1024 * 1024;

export type HttpRequest = {
  readonly method: "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
  /** From the root of the API, with its query. */
  readonly path: string;
  readonly body?: string;
  readonly contentType?: string;
};

/** Connections to one API server, kept open and shared. */
export type KubeConnections = AsyncDisposable & {
  /** Resolves with the body of an answer from 200 to 299. Rejects with KubeError for others, with a TimeoutError, with the signal's reason, or with the error of the network. */
  send(request: HttpRequest, timeoutMs: number, signal?: AbortSignal): Promise<string>;
};

/** What one request needs of client-node; made anew when it may be outdated. */
type Access = {
  readonly headers: Readonly<Record<string, string>>;
  readonly dispatcher: Dispatcher;
  readonly tokenAtMs: number;
  readonly connectedAtMs: number;
};

/**
 * Connects with client-node's server, credentials and proxy. At most `mostInFlight` requests are on their way; the others wait their turn within their time.
 * undici's own interface, and not fetch: a fetch takes several times the processor time of the request itself.
 */
export function kubeConnections(config: KubeConfig, mostInFlight: number): KubeConnections {
  const cluster = config.getCurrentCluster();
  if (cluster === null) {
    return throwFault({ code: "invalid_request", field: "kubeconfig", reason: "names no current cluster" });
  }
  const { origin, pathname } = new URL(cluster.server);
  const prefix = pathname.replace(/\/$/, "");
  const turns = takeTurns(mostInFlight);
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

  function sendWith(by: Access, request: HttpRequest, late: AbortSignal): Promise<string> {
    return new Promise((resolve, reject) => {
      turns.take((release) => {
        const options = {
          origin,
          path: prefix + request.path,
          method: request.method,
          headers: {
            accept: "application/json",
            ...(request.body !== undefined && { "content-type": request.contentType ?? "application/json" }),
            ...by.headers,
          },
          ...(request.body !== undefined && { body: request.body }),
        };
        exchange(by.dispatcher, options, late).finally(release).then(resolve, reject);
      });
    });
  }

  return {
    send: (request, timeoutMs, signal) =>
      within(timeoutMs, signal, async (late) => {
        const first = await current();
        try {
          return await sendWith(first, request, late);
        } catch (error) {
          if (!(error instanceof KubeError) || error.code !== 401) throw error;
          return sendWith(await current(first), request, late);
        }
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
  // What is under way on the old connections still ends there.
  known?.dispatcher.close().catch(() => undefined);
  return { headers, dispatcher: context.getDispatcher() ?? new Agent(), tokenAtMs: nowMs, connectedAtMs: nowMs };
}

/** Rejects at once when the time is over or the signal is aborted, whatever the work is waiting for; `late` then tells the work. One timer, and none of AbortSignal's, which cost more than the rest of a request. */
function within<Value>(
  timeoutMs: number,
  signal: AbortSignal | undefined,
  work: (late: AbortSignal) => Promise<Value>,
): Promise<Value> {
  return new Promise((resolve, reject) => {
    const late = new AbortController();
    const end = (reason: Error): void => {
      late.abort(reason);
      reject(reason);
    };
    const stop = (): void => end(reasonOf(signal));
    if (signal?.aborted === true) {
      stop();
      return;
    }
    const timer = setTimeout(() => {
      end(new DOMException(`no answer within ${timeoutMs} ms`, "TimeoutError"));
    }, timeoutMs);
    signal?.addEventListener("abort", stop);
    work(late.signal)
      .finally(() => {
        clearTimeout(timer);
        signal?.removeEventListener("abort", stop);
      })
      .then(resolve, reject);
  });
}

/** One request and its answer. Not sent any more when it comes to its turn too late. */
function exchange(dispatcher: Dispatcher, options: Dispatcher.DispatchOptions, late: AbortSignal): Promise<string> {
  return new Promise((resolve, reject) => {
    late.throwIfAborted();
    let abort = (): void => undefined;
    const onAbort = (): void => abort();
    late.addEventListener("abort", onAbort);
    let status = 0;
    let answerHeaders: Readonly<Record<string, string | string[] | undefined>> = {};
    let bytes = 0;
    const chunks: Buffer[] = [];
    dispatcher.dispatch(options, {
      onRequestStart: (controller) => {
        abort = () => controller.abort(reasonOf(late));
        if (late.aborted) abort();
      },
      onResponseStart: (_controller, code, headers) => {
        status = code;
        answerHeaders = headers;
      },
      onResponseData: (controller, chunk) => {
        bytes += chunk.length;
        chunks.push(chunk);
        if (bytes > ANSWER_BYTES_MAX) {
          controller.abort(new MalformedAnswerError(`the answer is longer than ${ANSWER_BYTES_MAX} bytes`));
        }
      },
      onResponseEnd: () => {
        late.removeEventListener("abort", onAbort);
        const text = Buffer.concat(chunks).toString();
        if (status >= 200 && status < 300) resolve(text);
        else reject(new KubeError(`${options.method} ${options.path}`, status, parseStatus(text), flat(answerHeaders)));
      },
      onResponseError: (_controller, error) => {
        late.removeEventListener("abort", onAbort);
        reject(error);
      },
    });
  });
}

function reasonOf(signal: AbortSignal | undefined): Error {
  const reason: unknown = signal?.reason;
  return reason instanceof Error ? reason : new Error(String(reason));
}

function flat(headers: Readonly<Record<string, string | string[] | undefined>>): Record<string, string> {
  return Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, String(value)]));
}

/** Lets so many go at once; the others come in order. */
function takeTurns(most: number): { take(start: (release: () => void) => void): void } {
  const waiting: ((release: () => void) => void)[] = [];
  let going = 0;
  const release = (): void => {
    const next = waiting.shift();
    if (next === undefined) going -= 1;
    else next(release);
  };
  return {
    take: (start) => {
      if (going >= most) {
        waiting.push(start);
        return;
      }
      going += 1;
      start(release);
    },
  };
}
