// leaf's hooks module for Claude Code: it keeps `leaf follow` running and does what that prints. It holds no rule: who has a
// message, what becomes of it and when a run is over is decided by the binary.
import type { EngineInterface, ModelUsage, Register } from 'claude-code'

/** What the binary says is to be done next (`ACTION` of `leaf fork line`). */
type Action = Start | { action: 'queued' | 'main' | 'ask' | 'none' | 'todo' }
type Start =
  | { action: 'spawn'; turn: string; name: string; description: string; prompt: string }
  | { action: 'resume'; turn: string; agent_id: string; prompt: string }

/** A line of `leaf follow`. */
type Line = {
  token?: string
  ask?: { thread: string; through: string; question: string }
  start?: Action
  stop?: { agent_id: string }
  wake?: { text: string }
  status?: { text: string }
}

/** How a command of leaf's came out. A refusal says why: one that failed without a word was killed. */
type Ran = { code: number; out: string; err: string }

/** A follower that died is back after this long, one that dies again and again after ever longer, milliseconds. */
const SOON = 100
const LATE = 30_000
/** One that left by itself, for a newer one or with the session, is started again after this long, milliseconds. */
const LEFT = 2_000

/** The follower's proof that it is this module that speaks. */
let token: string | undefined
/** The questions that the model is at. */
const asked = new Set<string>()
/** The agents that were started, by the turn they run in; empty while it is being started. */
const agents = new Map<string, string>()
/**
 * Whether a prompt was submitted that has not started its turn yet; whether main is in a turn, and not at its Stop: what a busy main
 * is to know it hears at its next boundary or there.
 */
let waking = false
let busy = false
/** The turns of the runs that leaf started and that are not reported yet, by their agent. */
const runs = new Map<string, string>()
/** The ends that are being reported, by their agent: of which run, and whether leaf knows it; what it cost comes next. */
const reports = new Map<string, { whose: string[]; report: Promise<Ran> }>()

async function leaf($: EngineInterface, args: string[], stdin = ''): Promise<Ran> {
  const env = await $.process.hookEnv()
  if (token !== undefined) env.LEAF_TOKEN = token
  const { exitCode, stdout, stderr } = await $.process.run([`${env.CLAUDE_PLUGIN_ROOT}/bin/leaf`, ...args], { env, stdin })
  return { code: exitCode, out: stdout.trim(), err: stderr.trim() }
}

/**
 * Reports to leaf, again where the command was killed or the follower's proof was none any more: each of these says the same
 * when it is said twice. A refusal may have met a follower that just died, so that it stands only the second time.
 */
async function tell($: EngineInterface, args: string[], stdin = ''): Promise<Ran> {
  let refused = false
  for (let pause = SOON; ; pause *= 5) {
    const proof = token
    const ran = await leaf($, args, stdin).catch(() => ({ code: 1, out: '', err: '' }))
    const again = ran.err === '' || proof === undefined || proof !== token || !refused
    if (ran.code === 0 || !again || pause > LEFT) return ran
    refused = ran.err !== '' && proof === token
    await $.clock.sleep(pause)
  }
}

/** Keeps the follower running. */
async function follow($: EngineInterface): Promise<void> {
  for (let pause = SOON; ; pause = Math.min(2 * pause, LATE)) {
    try {
      const env = await $.process.hookEnv()
      const follower = $.process.spawn({ argv: [`${env.CLAUDE_PLUGIN_ROOT}/bin/leaf`, 'follow', '--status'], env })
      let rest = ''
      for (;;) {
        const piece = await follower.next()
        if (piece.done) {
          if (piece.value.code === 0) pause = LEFT
          break
        }
        if (piece.value.stream !== 'stdout') continue
        pause = SOON
        const lines = (rest + piece.value.text).split('\n')
        rest = lines.pop() ?? ''
        for (const line of lines) void obey($, JSON.parse(line) as Line).catch(() => {})
      }
    } catch {
      // It could not be started.
    }
    token = undefined
    await $.clock.sleep(pause)
  }
}

async function obey($: EngineInterface, line: Line): Promise<void> {
  if (line.token !== undefined) token = line.token
  if (line.ask !== undefined) await ask($, line.ask)
  if (line.start !== undefined) await act($, line.start)
  if (line.stop !== undefined) await stop($, line.stop.agent_id)
  if (line.wake !== undefined) await wake($, line.wake.text)
  if (line.status !== undefined) $.ui.status(line.status.text === '' ? undefined : line.status.text)
}

/** Wakes an idle session, once: what is printed again meanwhile waits in the client's queue already. */
async function wake($: EngineInterface, text: string): Promise<void> {
  if (waking || busy) return
  waking = true
  try {
    const entered = await $.prompt.submit({ text })
    if (entered.drop !== undefined) waking = false
  } catch {
    // The person stopped the session: the watch wakes it.
    waking = false
  }
}

/** Asks the line fork; what is printed again meanwhile is being asked already. */
async function ask($: EngineInterface, { thread, through, question }: NonNullable<Line['ask']>): Promise<void> {
  if (asked.has(through)) return
  asked.add(through)
  try {
    const said = await words($, question)
    const { code, out } = await tell($, ['fork', 'line', thread, '--through', through, ...said.cost], said.text)
    if (code === 0) await act($, JSON.parse(out) as Action)
  } finally {
    asked.delete(through)
  }
}

/** What the line fork says: where there is none yet, the text says why, and is a failed line. */
async function words($: EngineInterface, prompt: string): Promise<{ text: string; cost: string[] }> {
  try {
    const since = await $.clock.now()
    const reply = await $.model.fork({ prompt })
    if (reply.isAnswered) return { text: reply.text, cost: cost(reply.usage, (await $.clock.now()) - since) }
    return { text: `the line fork gave no answer: ${reply.reason}`, cost: [] }
  } catch (error) {
    return { text: `the line fork failed: ${why(error)}`, cost: [] }
  }
}

/** What a run cost, as `leaf` takes it: all its tokens, and how long it took. */
function cost(usage: ModelUsage | undefined, ms: number): string[] {
  if (usage === undefined) return []
  const tokens = usage.input_tokens + usage.output_tokens + usage.cache_read_input_tokens + usage.cache_creation_input_tokens
  return ['--tokens', `${tokens}`, '--ms', `${Math.round(ms)}`]
}

function why(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}

async function act($: EngineInterface, action: Action): Promise<void> {
  if (action.action !== 'spawn' && action.action !== 'resume') return
  const { turn } = action
  let agent = agents.get(turn)
  if (agent === '') return
  if (agent === undefined) {
    agents.set(turn, '')
    try {
      agent = await start($, action)
      agents.set(turn, agent)
    } catch (error) {
      agents.delete(turn)
      if (action.action === 'resume') runs.delete(action.agent_id)
      await tell($, ['fork', 'ended', '--turn', turn, '--failed'], why(error))
      return
    }
  } else if (action.action === 'resume') {
    runs.set(agent, turn)
    await send($, agent, action.prompt)
  }
  const { code, out } = await tell($, ['fork', 'started', turn, agent])
  if (code === 0 && (JSON.parse(out) as { action: string }).action === 'stop') await stop($, agent)
}

/** Starts or resumes the fork: its agent. Fails where the client refuses. */
async function start($: EngineInterface, action: Start): Promise<string> {
  if (action.action === 'resume') {
    runs.set(action.agent_id, action.turn)
    await send($, action.agent_id, action.prompt)
    return action.agent_id
  }
  const { name, description, prompt } = action
  const spawned = await $.agent.spawn({ subagentType: 'fork', name, description, prompt })
  if (spawned.agentId === undefined) throw new Error(spawned.deny ?? 'the client started no agent')
  runs.set(spawned.agentId, action.turn)
  return spawned.agentId
}

async function send($: EngineInterface, agentId: string, text: string): Promise<void> {
  const sent = await $.session.send({ to: { agentId }, text })
  if (!sent.isDelivered) throw new Error(sent.reason)
}

async function stop($: EngineInterface, agent: string): Promise<void> {
  await $.tool.call({ tool: 'TaskStop', task_id: agent })
}

export const register: Register = on => {
  on('session.start', async ($, e, next) => {
    await $.command
      .register({
        name: 'leaf',
        description: 'Write in a thread beside the session',
        argumentHint: 'TEXT, or @THREAD TEXT',
        immediate: true,
      })
      .catch(() => {})
    void follow($)
    return next(e)
  })

  on('command.run', { command: 'leaf' }, async ($, e) => {
    if (token === undefined) return { text: 'the follower is not running yet: try again, or write from a terminal with leaf thread new TEXT' }
    const [, thread, text] = /^@(\S+)\s+(.*)$/s.exec(e.args.trim()) ?? [undefined, undefined, e.args.trim()]
    const args = text === '' ? ['status'] : thread === undefined ? ['thread', 'new', '-'] : ['thread', 'say', thread, '-']
    const { code, out, err } = await leaf($, args, text)
    // The client says itself whose words these are.
    const said = [out, err.replace(/^leaf: /, '')].filter(part => part !== '').join('\n')
    if (said === '') return { text: `not written (exit ${code})`, isTextDisplayOnly: true }
    // While main works the client shows it only once that is done.
    if (busy) $.ui.toast(said)
    // The model reads what was typed with the next turn: it is not to take it for its own. Of what an idle client serves it then reads
    // the context alone, of what a busy one serves the text alone.
    const note = code === 0 && text !== '' ? ['That went into a thread beside this session: nothing of it is to be answered here.'] : []
    return { text: [said, ...note].join('\n'), context: note, isTextDisplayOnly: true }
  })

  on('agent.report', async ($, e, next) => {
    if (e.subagentType !== 'fork') return next(e)
    const failed = e.status === 'completed' ? [] : ['--failed']
    const text = e.status === 'stopped' ? 'stopped from the client' : e.text
    // By its turn where leaf started this run: its agent may be at the next one before a report that is made again comes through.
    const turn = runs.get(e.agentId)
    runs.delete(e.agentId)
    const whose = turn === undefined ? ['--agent', e.agentId] : ['--turn', turn]
    const report = tell($, ['fork', 'ended', ...whose, ...failed], text)
    reports.set(e.agentId, { whose, report })
    const { code, out } = await report
    // A run that main or the user started reports to them; what leaf started, leaf tells of.
    const ended = code === 0 ? (JSON.parse(out) as { thread: string | null; scheduled?: boolean }) : undefined
    const ours = ended !== undefined && (ended.thread !== null || ended.scheduled === true)
    return ours ? { consumed: 'leaf tells of its own forks' } : next(e)
  }).catch(($, e, next) => next(e))

  on('turn.start', ($, e, next) => {
    if (e.agentId === undefined) {
      waking = false
      busy = true
    }
    return next(e)
  })

  on('classic.Stop', ($, e, next) => {
    busy = false
    return next(e)
  }).catch(($, e, next) => next(e))

  on('turn.complete', async ($, e, next) => {
    if (e.agentId === undefined) {
      busy = false
      // Only an interruption and an error end main's turn without a Stop.
      if (e.reason !== 'answer') await tell($, ['turn', 'ended', ...(e.isAborted ? ['--interrupted'] : [])])
    } else {
      const reported = reports.get(e.agentId)
      if (reported !== undefined && (await reported.report).code === 0) {
        // The end itself was reported before; this tells what it cost.
        reports.delete(e.agentId)
        await tell($, ['fork', 'ended', ...reported.whose, ...cost(e.usage, e.durationMs)], e.answer)
      }
    }
    return next(e)
  })
}
