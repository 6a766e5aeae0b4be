# fibers WORKERS JOBS SIZE: fibers that pass objects through channels.
#
# Jobs go through a chain of stages, each a group of fibers with stacks of
# their own that hold the only references to what they work on.

record Job, number : Int32, items : Array(String)

def stage(workers, input, output, &block : Job -> Job)
  done = Channel(Nil).new
  workers.times do
    spawn do
      while job = input.receive?
        output.send(block.call(job))
        Fiber.yield
      end
      done.send(nil)
    end
  end
  spawn do
    workers.times { done.receive }
    output.close
  end
end

# Keeps a reference in every frame of a deep stack across a switch.
def deep(level, items : Array(String)) : Array(String)
  if level == 0
    Fiber.yield
    items.sort
  else
    mine = items.map(&.succ)
    result = deep(level - 1, items)
    raise "a frame lost its array" unless mine.size == result.size && mine[0] == items[0].succ
    result
  end
end

workers, jobs, size = ARGV.map(&.to_i)
made = Channel(Job).new(4)
sorted = Channel(Job).new(4)
joined = Channel(Job).new(4)

spawn do
  jobs.times do |number|
    made.send(Job.new(number, Array.new(size) { |i| "item-#{(i * 7919 + number * 31) % 10007}" }))
  end
  made.close
end

stage(workers, made, sorted) { |job| Job.new(job.number, deep(10, job.items)) }
stage(workers, sorted, joined) do |job|
  Job.new(job.number, job.items.each_slice(5).map(&.join(',')).to_a)
end

results = Array(UInt32).new(jobs, 0_u32)
while job = joined.receive?
  results[job.number] = job.items.join(';').each_byte.reduce(7_u32) { |s, b| s &* 31 &+ b }
end
puts "#{jobs} jobs by #{workers} fibers a stage: #{results.reduce(1_u32) { |s, r| s &* 33 &+ r }}"
puts "first #{results.first(5)}"
