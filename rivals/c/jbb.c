/* Warehouses that take orders, in the manner of pjbb2005: fixed work, a warehouse
 * for each mutator.
 *
 * Nothing moves here, so a clerk simply points to its warehouse. By hand, what is
 * printed or looked through is freed at once, a payment when another one takes its
 * place, and an order when neither its district keeps it nor is it the last one of
 * its customer: both are changed by the mutator of the warehouse alone. The rest is
 * freed when the books were checked. */
#include <endian.h>
#include <pthread.h>
#include <stdbool.h>

#include "numbers.h"

enum {
    DISTRICTS = 10,
    /* Items of an order. */
    FEWEST_LINES = 5,
    MOST_LINES = 15,
    /* The latest orders that a stock level looks at. */
    LATEST = 20,
    /* The last payments of a warehouse are remembered. */
    HISTORY = 1000,
    /* How many of a hundred lines are delivered from another warehouse, and how
     * many of a hundred payments are by the customer of another. */
    AWAY = 10,
    /* A stock goes from the first to the last of these, and around. */
    LEAST_STOCK = 10,
    MOST_STOCK = 100,
    SPAN = MOST_STOCK - LEAST_STOCK + 1,
    /* What is printed. */
    SCREEN_LINES = 16,
    SCREEN_LINE = 64,
};

struct item {
    struct bytes *name;
    uint32_t price, place;
};

struct stock {
    struct item *item;
    /* How much there is, how much was ordered, its place among those of all
     * warehouses. */
    uint32_t quantity, taken, place;
};

struct customer {
    /* No other has it. */
    struct bytes *name;
    struct order *last;
    uint64_t balance, payments, deliveries;
};

struct line {
    struct stock *stock;
    uint32_t quantity, amount;
};

struct lines {
    size_t count;
    struct line *line[];
};

struct order {
    struct customer *customer;
    struct lines *lines;
    uint64_t number, sum, carrier;
};

struct payment {
    struct customer *customer;
    uint64_t amount;
};

struct district {
    struct customer **customers;
    /* The last ones, in a ring. */
    struct order **orders;
    /* The next order, the next to be delivered, the sum of payments. */
    uint64_t next, delivery, received;
};

struct warehouse {
    struct district **districts;
    struct stock **stocks;
    struct payment **history;
    /* The sum of payments, and their count. */
    uint64_t received, payments;
};

/* What one mutator did. */
struct tally {
    uint64_t ordered, paid, delivered;
    /* Made of what the transactions found. */
    uint64_t found;
};

struct trade {
    uint32_t items, customers, orders, transactions, count;
    struct warehouse **warehouses;
    pthread_mutex_t locks[MOST_MUTATORS];
    struct tally tallies[MOST_MUTATORS];
};

/* A mutator at its warehouse. */
struct clerk {
    struct trade *trade;
    uint32_t own;
    struct warehouse *warehouse;
    struct random random;
    struct tally tally;
};

static void add_tally(struct tally *sum, const struct tally *more)
{
    sum->ordered += more->ordered;
    sum->paid += more->paid;
    sum->delivered += more->delivered;
    sum->found += more->found;
}

/* ---- orders ---- */

/* Whether a district keeps the order with a number. */
static bool keeps(const struct trade *trade, const struct district *district, uint64_t number)
{
    return number + trade->orders >= district->next;
}

static void free_order(struct order *order)
{
    for (size_t i = 0; i < order->lines->count; i++)
        memory_free(order->lines->line[i]);
    memory_free(order->lines);
    memory_free(order);
}

/* The sum of an order, which its lines come to. */
static uint64_t total_of(const struct order *order)
{
    uint64_t total = 0;

    for (size_t i = 0; i < order->lines->count; i++) {
        const struct line *line = order->lines->line[i];

        require(line->amount == line->quantity * line->stock->item->price, "a line is its price");
        total += line->amount;
    }
    require(total == order->sum, "an order is the sum of its lines");
    return total;
}

/* ---- transactions ---- */

/* The warehouse that delivers or whose customer pays. */
static uint32_t somewhere(struct clerk *clerk)
{
    bool away = below(&clerk->random, 100) < AWAY;
    uint32_t which = next_random(&clerk->random);
    uint32_t others = clerk->trade->count - 1;

    if (away && others > 0)
        return (clerk->own + 1 + which % others) % (others + 1);
    return clerk->own;
}

/* Delivers the oldest order of a district, if there is one. */
static void deliver(struct clerk *clerk, uint32_t index)
{
    struct trade *trade = clerk->trade;
    struct district *district = clerk->warehouse->districts[index];
    uint64_t carrier = 1 + below(&clerk->random, 10);
    struct order *order;

    pthread_mutex_lock(&trade->locks[clerk->own]);
    if (district->delivery == district->next) {
        pthread_mutex_unlock(&trade->locks[clerk->own]);
        return;
    }
    order = district->orders[district->delivery % trade->orders];
    order->carrier = carrier;
    order->customer->balance += order->sum;
    order->customer->deliveries++;
    district->delivery++;
    pthread_mutex_unlock(&trade->locks[clerk->own]);
    clerk->tally.delivered += order->sum;
}

/* A line of an order. */
static struct line *new_line(struct clerk *clerk)
{
    struct trade *trade = clerk->trade;
    uint32_t item = below(&clerk->random, trade->items);
    uint32_t quantity = 1 + below(&clerk->random, 10);
    uint32_t supplier = somewhere(clerk);
    struct line *line = memory_object(sizeof *line);
    struct stock *stock = trade->warehouses[supplier]->stocks[item];

    pthread_mutex_lock(&trade->locks[supplier]);
    if (stock->quantity < quantity + LEAST_STOCK)
        stock->quantity += SPAN;
    stock->quantity -= quantity;
    stock->taken += quantity;
    pthread_mutex_unlock(&trade->locks[supplier]);
    clerk->tally.ordered += quantity;
    *line = (struct line){
        .stock = stock,
        .quantity = quantity,
        .amount = quantity * stock->item->price,
    };
    return line;
}

static void new_order(struct clerk *clerk, uint32_t index)
{
    struct trade *trade = clerk->trade;
    struct district *district = clerk->warehouse->districts[index];
    uint32_t which = below(&clerk->random, trade->customers);
    uint32_t count = FEWEST_LINES + below(&clerk->random, MOST_LINES - FEWEST_LINES + 1);
    struct lines *lines = memory_object(sizeof *lines + count * sizeof *lines->line);
    struct order *order, *last, **slot, *replaced;
    struct customer *customer;
    uint64_t total = 0;

    lines->count = count;
    for (uint32_t i = 0; i < count; i++) {
        lines->line[i] = new_line(clerk);
        total += lines->line[i]->amount;
    }
    order = memory_object(sizeof *order);
    if (district->next - district->delivery == trade->orders)
        deliver(clerk, index);
    customer = district->customers[which];
    *order = (struct order){
        .customer = customer,
        .lines = lines,
        .number = district->next,
        .sum = total,
    };
    slot = &district->orders[district->next % trade->orders];
    last = customer->last;
    replaced = *slot;
    customer->last = order;
    *slot = order;
    district->next++;
    if (memory_by_hand && replaced != NULL && replaced != replaced->customer->last)
        free_order(replaced);
    if (memory_by_hand && last != NULL && last != replaced && !keeps(trade, district, last->number))
        free_order(last);
}

static void pay(struct clerk *clerk, uint32_t index)
{
    struct trade *trade = clerk->trade;
    struct warehouse *warehouse = clerk->warehouse;
    uint32_t home = somewhere(clerk);
    uint32_t which = below(&clerk->random, trade->customers);
    uint64_t amount = 1 + below(&clerk->random, 5000);
    struct payment *payment = memory_object(sizeof *payment), **slot;
    struct customer *customer = trade->warehouses[home]->districts[index]->customers[which];

    pthread_mutex_lock(&trade->locks[home]);
    customer->balance -= amount;
    customer->payments++;
    pthread_mutex_unlock(&trade->locks[home]);
    *payment = (struct payment){ .customer = customer, .amount = amount };
    slot = &warehouse->history[warehouse->payments % HISTORY];
    memory_free(*slot);
    *slot = payment;
    warehouse->received += amount;
    warehouse->payments++;
    warehouse->districts[index]->received += amount;
    clerk->tally.paid += amount;
}

/* Adds up the last order of a customer. */
static void find_status(struct clerk *clerk, uint32_t index)
{
    struct trade *trade = clerk->trade;
    uint32_t which = below(&clerk->random, trade->customers);
    const struct customer *customer = clerk->warehouse->districts[index]->customers[which];

    pthread_mutex_lock(&trade->locks[clerk->own]);
    /* What it is depends on the other threads. */
    __asm__ volatile("" : : "r"(customer->balance));
    pthread_mutex_unlock(&trade->locks[clerk->own]);
    if (customer->last != NULL)
        clerk->tally.found += total_of(customer->last);
}

/* Looks for items of the latest orders of which few are left. */
static void find_stock_level(struct clerk *clerk, uint32_t index)
{
    struct trade *trade = clerk->trade;
    const struct district *district = clerk->warehouse->districts[index];
    struct stock **stocks = clerk->warehouse->stocks;
    uint32_t level = LEAST_STOCK + below(&clerk->random, 10);
    unsigned char *seen = memory_zeros(trade->items);
    uint64_t latest = trade->orders < LATEST ? trade->orders : LATEST;
    uint64_t distinct = 0, low = 0, number;

    pthread_mutex_lock(&trade->locks[clerk->own]);
    number = district->next < latest ? 0 : district->next - latest;
    for (; number < district->next; number++) {
        const struct lines *lines = district->orders[number % trade->orders]->lines;

        for (size_t i = 0; i < lines->count; i++) {
            uint32_t item = lines->line[i]->stock->item->place;

            if (seen[item])
                continue;
            seen[item] = 1;
            distinct++;
            low += stocks[item]->quantity < level;
        }
    }
    pthread_mutex_unlock(&trade->locks[clerk->own]);
    memory_free(seen);
    require(low <= distinct, "few of the items that there are");
    clerk->tally.found += distinct;
}

/* What the terminal shows after a transaction. */
static void print(struct clerk *clerk)
{
    unsigned char *screen = memory_numbers(SCREEN_LINES * SCREEN_LINE);

    for (uint64_t i = 0; i < SCREEN_LINES; i++) {
        uint64_t text[SCREEN_LINE / 8] = { htole64(clerk->tally.found + i) };

        memcpy(screen + i * SCREEN_LINE, text, sizeof text);
    }
    observe(screen);
    memory_free(screen);
}

static void do_transaction(struct clerk *clerk)
{
    uint32_t district = below(&clerk->random, DISTRICTS);
    uint32_t what = below(&clerk->random, 23);

    if (what < 10)
        new_order(clerk, district);
    else if (what < 20)
        pay(clerk, district);
    else if (what == 20)
        find_status(clerk, district);
    else if (what == 21)
        for (uint32_t i = 0; i < DISTRICTS; i++)
            deliver(clerk, i);
    else
        find_stock_level(clerk, district);
    print(clerk);
}

static struct clerk clerk_at(struct trade *trade, uint32_t own, uint64_t seed)
{
    return (struct clerk){
        .trade = trade,
        .own = own,
        .warehouse = trade->warehouses[own],
        .random = { seed + own },
    };
}

static uint64_t trade_at(void *context, unsigned number)
{
    struct trade *trade = context;
    struct clerk clerk = clerk_at(trade, number, 11000);

    for (uint32_t i = 0; i < trade->transactions; i++)
        do_transaction(&clerk);
    trade->tallies[number] = clerk.tally;
    return 0;
}

/* ---- building ---- */

/* The quantity of the stock at a place before anything was ordered. */
static uint32_t at_first(uint32_t place)
{
    return LEAST_STOCK + (uint32_t)(scattered(place) % SPAN);
}

static struct bytes *name_of(const char *what, uint32_t index)
{
    char name[64];
    int length = snprintf(name, sizeof name, "%s number %u", what, index);

    return copied_bytes(name, (size_t)length);
}

static struct district *new_district(const struct trade *trade, uint32_t number)
{
    struct district *district = memory_object(sizeof *district);

    *district = (struct district){ 0 };
    district->orders = (void *)memory_references(trade->orders);
    district->customers = (void *)memory_references(trade->customers);
    for (uint32_t i = 0; i < trade->customers; i++) {
        struct bytes *name = name_of("customer", number * trade->customers + i);
        struct customer *customer = memory_object(sizeof *customer);

        *customer = (struct customer){ .name = name };
        district->customers[i] = customer;
    }
    return district;
}

static struct warehouse *new_warehouse(const struct trade *trade, struct item *const *items,
                                       uint32_t number)
{
    struct warehouse *warehouse = memory_object(sizeof *warehouse);

    *warehouse = (struct warehouse){ 0 };
    warehouse->stocks = (void *)memory_references(trade->items);
    for (uint32_t i = 0; i < trade->items; i++) {
        struct stock *stock = memory_object(sizeof *stock);
        uint32_t place = number * trade->items + i;

        *stock = (struct stock){ .item = items[i], .quantity = at_first(place), .place = place };
        warehouse->stocks[i] = stock;
    }
    warehouse->districts = (void *)memory_references(DISTRICTS);
    for (uint32_t i = 0; i < DISTRICTS; i++)
        warehouse->districts[i] = new_district(trade, number * DISTRICTS + i);
    warehouse->history = (void *)memory_references(HISTORY);
    return warehouse;
}

static void build(struct trade *trade)
{
    struct item **items = (void *)memory_references(trade->items);

    for (uint32_t i = 0; i < trade->items; i++) {
        struct bytes *name = name_of("item", i);
        struct item *item = memory_object(sizeof *item);

        *item = (struct item){
            .name = name,
            .price = 1 + (uint32_t)(scattered(i) % 10000),
            .place = i,
        };
        items[i] = item;
    }
    trade->warehouses = (void *)memory_references(trade->count);
    for (uint32_t i = 0; i < trade->count; i++) {
        trade->warehouses[i] = new_warehouse(trade, items, i);
        pthread_mutex_init(&trade->locks[i], NULL);
    }
    memory_free(items);
}

/* Half of the orders that the districts keep. */
static void take_first_orders(struct trade *trade, uint32_t own, struct tally *tally)
{
    struct clerk clerk = clerk_at(trade, own, 10000);

    for (uint32_t i = 0; i < trade->orders / 2; i++)
        for (uint32_t district = 0; district < DISTRICTS; district++)
            new_order(&clerk, district);
    add_tally(tally, &clerk.tally);
}

static void close_district(const struct trade *trade, struct district *district)
{
    for (uint32_t i = 0; i < trade->customers; i++) {
        struct customer *customer = district->customers[i];

        if (customer->last != NULL && !keeps(trade, district, customer->last->number))
            free_order(customer->last);
        memory_free(customer->name);
        memory_free(customer);
    }
    for (uint32_t i = 0; i < trade->orders; i++)
        if (district->orders[i] != NULL)
            free_order(district->orders[i]);
    memory_free(district->customers);
    memory_free(district->orders);
    memory_free(district);
}

/* Frees all that is left. */
static void close_down(struct trade *trade)
{
    for (uint32_t i = 0; i < trade->count; i++) {
        struct warehouse *warehouse = trade->warehouses[i];

        for (uint32_t j = 0; j < DISTRICTS; j++)
            close_district(trade, warehouse->districts[j]);
        for (uint32_t j = 0; j < trade->items; j++) {
            /* All warehouses have the same items. */
            if (i + 1 == trade->count) {
                memory_free(warehouse->stocks[j]->item->name);
                memory_free(warehouse->stocks[j]->item);
            }
            memory_free(warehouse->stocks[j]);
        }
        for (uint32_t j = 0; j < HISTORY; j++)
            memory_free(warehouse->history[j]);
        memory_free(warehouse->districts);
        memory_free(warehouse->stocks);
        memory_free(warehouse->history);
        memory_free(warehouse);
    }
    memory_free(trade->warehouses);
}

/* ---- the books, when all threads are done ---- */

/* A number made of an order, its customer and its lines. */
static uint64_t audit_order(const struct order *order)
{
    uint64_t sum = hash_of(order->customer->name);

    sum = chained(sum, order->number);
    sum = chained(sum, order->carrier);
    for (size_t i = 0; i < order->lines->count; i++) {
        sum = chained(sum, order->lines->line[i]->stock->place);
        sum = chained(sum, order->lines->line[i]->quantity);
    }
    return chained(sum, total_of(order));
}

static uint64_t audit_district(const struct trade *trade, const struct district *district,
                               uint64_t *balance)
{
    uint64_t sum = district->received;
    uint64_t number = district->next < trade->orders ? 0 : district->next - trade->orders;

    for (; number < district->next; number++) {
        const struct order *order = district->orders[number % trade->orders];

        require(order->number == number, "an order is in its place");
        require((order->carrier != 0) == (number < district->delivery),
                "the oldest are delivered");
        sum = chained(sum, audit_order(order));
    }
    for (uint32_t i = 0; i < trade->customers; i++) {
        const struct customer *customer = district->customers[i];

        *balance += customer->balance;
        sum = chained(sum, customer->balance);
        sum = chained(sum, customer->payments);
        sum = chained(sum, customer->deliveries);
        sum = chained(sum, hash_of(customer->name));
        /* It may be one that the district does not keep any more. */
        if (customer->last != NULL)
            sum = chained(sum, audit_order(customer->last));
    }
    return chained(chained(sum, district->next), district->delivery);
}

/* A number made of the payments that a warehouse remembers, from the oldest on. */
static uint64_t audit_history(const struct warehouse *warehouse)
{
    uint64_t count = warehouse->payments, sum = count;

    for (uint64_t number = count < HISTORY ? 0 : count - HISTORY; number < count; number++) {
        const struct payment *payment = warehouse->history[number % HISTORY];

        require(payment != NULL, "a payment is remembered");
        sum = chained(sum, payment->amount);
        sum = chained(sum, hash_of(payment->customer->name));
    }
    return sum;
}

/* Checks a stock; a number made of it, and what was ordered of it. */
static uint64_t audit_stock(const struct stock *stock, uint64_t sum, uint64_t *ordered)
{
    uint32_t first = at_first(stock->place) - LEAST_STOCK;

    require(stock->quantity == LEAST_STOCK + (first + SPAN - stock->taken % SPAN) % SPAN,
            "a stock is what it was without what was taken");
    *ordered += stock->taken;
    sum = chained(sum, stock->place);
    sum = chained(sum, stock->taken);
    sum = chained(sum, stock->quantity);
    sum = chained(sum, stock->item->place);
    return chained(sum, hash_of(stock->item->name));
}

/* Checks that everything fits together; a number made of all that lives. */
static uint64_t audit(const struct trade *trade, const struct tally *tally)
{
    uint64_t sum = tally->found, ordered = 0, paid = 0, balance = 0;

    for (uint32_t i = 0; i < trade->count; i++) {
        const struct warehouse *warehouse = trade->warehouses[i];
        uint64_t received = 0;

        for (uint32_t j = 0; j < trade->items; j++)
            sum = audit_stock(warehouse->stocks[j], sum, &ordered);
        for (uint32_t j = 0; j < DISTRICTS; j++) {
            received += warehouse->districts[j]->received;
            sum = chained(sum, audit_district(trade, warehouse->districts[j], &balance));
        }
        require(received == warehouse->received, "payments are in both books");
        paid += received;
        sum = chained(sum, audit_history(warehouse));
    }
    require(ordered == tally->ordered, "all that was ordered was taken from a stock");
    require(paid == tally->paid, "no payment is lost");
    require(balance == tally->delivered - tally->paid,
            "balances are what was delivered without what was paid");
    return sum;
}

uint64_t jbb(const struct chosen *chosen)
{
    struct trade trade = {
        .items = chosen->tiny ? 200 : 20000,
        .customers = chosen->tiny ? 10 : 1000,
        .orders = chosen->tiny ? 20 : 1000,
        .transactions = chosen->tiny ? 500 : 500000,
        .count = chosen->mutators,
    };
    struct tally all = { 0 };
    double started;
    uint64_t sum;

    build(&trade);
    for (uint32_t i = 0; i < trade.count; i++)
        take_first_orders(&trade, i, &all);
    started = seconds();
    run_mutators(chosen->mutators, trade_at, &trade);
    facts.transactions = (uint64_t)trade.count * trade.transactions;
    facts.transactions_per_s = (double)facts.transactions / (seconds() - started);
    for (uint32_t i = 0; i < trade.count; i++)
        add_tally(&all, &trade.tallies[i]);
    sum = audit(&trade, &all);
    if (memory_by_hand)
        close_down(&trade);
    return sum;
}
